"""Records that members of share groups accept, in both APIs."""

from __future__ import annotations

import pytest
from support.auditing import Audited
from support.dialogue import pieces
from support.produce_requests import topic_id
from support.share_fetches import acknowledged, acknowledging, partition, share_response

from kafka_sidecar.codec.apis import ApiKey

FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE
GAP, ACCEPT, RELEASE, REJECT = range(4)
INVALID_RECORD_STATE, SHARE_SESSION_NOT_FOUND = 121, 122
each_version = pytest.mark.parametrize("version", [1, 2])


def audited() -> Audited:
    found = Audited()
    found.dialogue.topics.remember((topic_id(name), name) for name in ("orders", "free"))
    return found


@each_version
@pytest.mark.parametrize("key", [FETCH, ACKNOWLEDGE])
def test_accepted_records_count_once_the_broker_has_taken_it(key: int, version: int) -> None:
    found = audited()
    request = acknowledging(key, version, "workers", {
        "orders": {
            0: [(0, 9, (ACCEPT,)), (10, 15, (ACCEPT, ACCEPT, RELEASE, REJECT, GAP, ACCEPT))],
            1: [(0, 3, (ACCEPT,))],
        },
        "free": {0: [(4, 6, (RELEASE,))]},
    })  # fmt: skip
    if key == FETCH:
        state = {"acknowledge_error_code": INVALID_RECORD_STATE}
        answer = share_response(version, {"orders": [partition(b""), partition(b"", **state)]})
    else:
        answer = acknowledged(version, {"orders": {0: 0, 1: INVALID_RECORD_STATE}, "free": {0: 0}})
    found.dialogue.client(*pieces(request, [20])).broker(*pieces(answer, [15]))
    assert found.calls.accepted_ == [
        ("workers", "orders", 0, 0, 9), ("workers", "orders", 0, 10, 11), ("workers", "orders", 0, 15, 15),
    ]  # fmt: skip


@pytest.mark.parametrize("key", [FETCH, ACKNOWLEDGE])
def test_an_error_of_the_whole_response_accepts_nothing(key: int) -> None:
    found = audited()
    found.dialogue.client(acknowledging(key, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}}))
    code = SHARE_SESSION_NOT_FOUND
    answer = share_response(1, {}, error_code=code) if key == FETCH else acknowledged(1, {}, error_code=code)
    found.dialogue.broker(answer)
    assert found.calls.accepted_ == []


@pytest.mark.parametrize("group", [None, "", "workers"])
def test_what_is_acknowledged_without_accepting_is_not_counted(group: str | None) -> None:
    found = audited()
    found.dialogue.client(acknowledging(ACKNOWLEDGE, 1, group, {"orders": {0: [(0, 9, (RELEASE,)), (10, 19, ())]}}))
    found.dialogue.broker(acknowledged(1, {"orders": {0: 0}}))
    assert found.calls.accepted_ == []


def test_what_cannot_be_read_is_relayed_and_counted_itself() -> None:
    found = audited()
    request = acknowledging(ACKNOWLEDGE, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}})
    broken = (len(request) - 14).to_bytes(4, "big") + request[4:-10]
    answer = acknowledged(1, {"orders": {0: 0}})
    cut = (len(answer) - 8).to_bytes(4, "big") + answer[4:-4]
    found.dialogue.client(broken).broker(answer).client(request).broker(cut)
    assert found.counting.stats.uncounted == {("ShareAcknowledge", "unreadable"): 2}
    assert found.calls.accepted_ == []
