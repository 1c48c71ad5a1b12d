"""Which consumer group fetches: learned from other requests of the same client id and address."""

from __future__ import annotations

import pytest
from support import oracle
from support.auditing import Audited
from support.commit_requests import PLAIN, THREE, commit_request
from support.dialogue import pieces
from support.fetches import fetch_request
from support.interception import fetch_response
from support.produce_requests import batch

from kafka_sidecar.audit.contract import SEVERAL_GROUPS
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.auditing.groups import KEPT_S, MAX_CLIENTS, MAX_GROUPS, Groups

APP = ("app", None)


def request(key: int, version: int, group: str = "billing") -> bytes:
    return oracle.request_frame(oracle.request(key, version, group_id=group), 7)


def fetched(found: Audited) -> str | None:
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}})).broker(fetch_response(12, {"orders": {0: batch("a")}}))
    group: str | None = found.calls.delivered_[-1][0]
    return group


@pytest.mark.parametrize("cuts", [[], [20]])
def test_requests_of_members_name_the_group(cuts: list[int]) -> None:
    frame, found = request(ApiKey.HEARTBEAT, 4, "Bücher"), Audited()
    found.dialogue.client(*pieces(frame, cuts))
    assert found.counting.groups.find(APP) == "Bücher"
    assert found.dialogue.to_broker == frame


def test_a_fetch_is_of_the_group_that_the_client_has_named() -> None:
    found = Audited()
    assert fetched(found) is None
    other = Audited()
    other.dialogue.client(commit_request(PLAIN, 9, THREE))
    assert fetched_on(other) == "g"


def fetched_on(found: Audited) -> str | None:
    return found.counting.groups.find(APP)


def test_two_groups_at_a_time_are_several() -> None:
    now = 0.0
    groups = Groups(lambda: now)
    groups.learn(APP, "one")
    groups.learn(APP, "")
    groups.learn(("other", None), "two")
    assert (groups.find(APP), groups.find(("other", None))) == ("one", "two")
    groups.learn(APP, "two")
    assert groups.find(APP) == SEVERAL_GROUPS
    now = KEPT_S + 1
    groups.learn(APP, "two")
    assert groups.find(APP) == "two"


def test_a_bounded_number_of_clients_and_groups_is_remembered() -> None:
    groups = Groups(lambda: 0.0)
    for number in range(MAX_CLIENTS + 1):
        groups.learn((str(number), None), "g")
    assert (groups.find(("0", None)), groups.find((str(MAX_CLIENTS), None))) == (None, "g")
    for number in range(MAX_GROUPS * 2):
        groups.learn(APP, str(number))
    assert len(groups._seen[APP]) == MAX_GROUPS


@pytest.mark.parametrize("cuts", [[], [6]])
def test_a_request_without_a_group_is_relayed_and_counted_itself(cuts: list[int]) -> None:
    frame = oracle.framed(int(ApiKey.HEARTBEAT).to_bytes(2, "big") + b"\0\0" + bytes(4) + b"\xff\xff")
    found = Audited()
    found.dialogue.client(*pieces(frame, cuts))
    assert found.dialogue.to_broker == frame
    assert found.counting.stats.uncounted == {("Heartbeat", "unreadable"): 1}
