"""Records that members of share groups acquire and accept."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.auditing import NOW_MS, Audited
from support.dialogue import pieces
from support.interception import Intercepting
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log
from support.produce_requests import batch, topic_id
from support.share_fetches import acknowledged, acknowledging, partition, share_response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.proxy.exchanges.messages import MessageExchanges
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords
from kafka_sidecar.proxy.features.interception.consume_stage import ShareStage
from kafka_sidecar.proxy.features.large_messages.assemble_stage import ShareAssembleStage
from kafka_sidecar.proxy.relay.exchange import Begin

FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE
GAP, ACCEPT, RELEASE, REJECT = range(4)
INVALID_RECORD_STATE, SHARE_SESSION_NOT_FOUND = 121, 122
each_version = pytest.mark.parametrize("version", [1, 2])


def records(base: int, count: int = 3, last: int | None = None, size: int = 10) -> bytes:
    values = [NewRecord(b"v" * size) for _ in range(count)]
    delta = None if last is None else last - base
    return build_batch(values, base_offset=base, max_timestamp=NOW_MS - 500, last_offset_delta=delta)


def audited(**settings: object) -> Audited:
    found = Audited(**settings)  # type: ignore[arg-type]
    found.dialogue.topics.remember((topic_id(name), name) for name in ("orders", "free"))
    return found


def acquisitions(found: Audited) -> list[tuple[object, ...]]:
    """(topic, partition, records, first offset, last offset, deliveries, hidden)"""
    return [(*call[1:3], call[4], *call[6:8], *call[9:]) for call in found.calls.acquired_]


def fetch(version: int = 1) -> bytes:
    return acknowledging(FETCH, version, "workers", {})


@each_version
def test_of_the_batches_in_a_response_those_offsets_count_that_the_member_has_acquired(version: int) -> None:
    found = audited()
    answer = share_response(version, {
        "orders": [partition(records(10) + records(13) + records(16), (11, 13), (16, 18), deliveries=1)],
        "free": [partition(records(0), (0, 2), deliveries=3), partition(records(5))],
    })  # fmt: skip
    found.dialogue.client(fetch(version)).broker(answer)
    assert acquisitions(found) == [
        ("orders", 0, 2, 11, 12, 1, 0), ("orders", 0, 1, 13, 13, 1, 0), ("orders", 0, 3, 16, 18, 1, 0),
        ("free", 0, 3, 0, 2, 3, 0),
    ]  # fmt: skip
    size = len(records(16))
    assert found.calls.acquired_[2] == (
        "workers", "orders", 0, NOW_MS - 500, 3, size, 16, 18, pytest.approx(0.5), 1, 0,
    )  # fmt: skip
    assert found.dialogue.to_client == answer


@given(
    cuts=some.lists(some.integers(0, 100_000), max_size=8), request_cuts=some.lists(some.integers(0, 60), max_size=4)
)
def test_what_comes_in_pieces_counts_the_same(cuts: list[int], request_cuts: list[int]) -> None:
    found = audited()
    answer = share_response(1, {"orders": [partition(records(0, 90, size=1000), (0, 89), deliveries=1)]})
    request = acknowledging(FETCH, 1, "workers", {"orders": {0: [(3, 5, (ACCEPT,))]}})
    found.dialogue.client(*pieces(request, request_cuts)).broker(*pieces(answer, cuts))
    assert acquisitions(found) == [("orders", 0, 90, 0, 89, 1, 0)]
    assert found.calls.accepted_ == [("workers", "orders", 0, 3, 5)]
    assert (found.dialogue.to_broker, found.dialogue.to_client) == (request, answer)


def test_a_compacted_batch_is_divided_in_proportion_to_its_offsets() -> None:
    found = audited()
    found.dialogue.client(fetch())
    found.dialogue.broker(share_response(1, {"orders": [partition(records(0, 10, last=19), (0, 9), deliveries=1)]}))
    assert acquisitions(found) == [("orders", 0, 5, 0, 9, 1, 0)]


def test_a_response_after_the_client_has_closed_acquires_nothing_and_accepts() -> None:
    found = audited()
    found.dialogue.client(acknowledging(FETCH, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}}))
    found.dialogue.session.client_ended()
    found.dialogue.broker(share_response(1, {"orders": [partition(records(10), (10, 12))]}))
    assert acquisitions(found) == []
    assert found.calls.accepted_ == [("workers", "orders", 0, 0, 9)]


def test_topics_without_a_name_are_counted_later() -> None:
    found = Audited()
    found.dialogue.client(acknowledging(FETCH, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}}))
    found.dialogue.broker(share_response(1, {"orders": [partition(records(10), (10, 12))]}))
    assert (found.calls.acquired_, found.calls.accepted_) == ([], [])
    found.dialogue.topics.remember([(topic_id("orders"), "orders")])
    found.requested[0][1]()
    assert acquisitions(found) == [("orders", 0, 3, 10, 12, 2, 0)]
    assert found.calls.accepted_ == [("workers", "orders", 0, 0, 9)]


def test_what_cannot_be_read_is_relayed_and_counted_itself() -> None:
    found = audited()
    request = acknowledging(FETCH, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}})
    broken = (len(request) - 14).to_bytes(4, "big") + request[4:-10]
    answer = share_response(1, {"orders": [partition(records(0), (0, 2))]}).replace(records(0)[:30], b"\xff" * 30)
    found.dialogue.client(broken).broker(share_response(1, {})).client(request).broker(answer)
    assert found.dialogue.to_client.endswith(answer)
    assert found.counting.stats.uncounted == {("ShareFetch", "unreadable"): 2}


def test_an_auditor_that_fails_costs_no_connection() -> None:
    found = audited()
    found.calls.fails = True
    found.dialogue.client(acknowledging(FETCH, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}}))
    found.dialogue.broker(share_response(1, {"orders": [partition(records(10), (10, 12))]}))
    assert found.dialogue.cause is None
    assert found.counting.stats.uncounted == {
        ("ShareFetch", "auditor_failed"): 1,
        ("ShareAcknowledge", "auditor_failed"): 1,
    }


def test_records_that_an_interceptor_hides_of_what_was_acquired_are_counted_apart() -> None:
    intercepting = Intercepting("Reads")

    def exchange(key: int, version: int) -> Begin | None:
        stage = ShareStage(intercepting.catalog.consumers, intercepting.services)
        exchanges = MessageExchanges([AcquiredRecords([stage], intercepting.services.name_of)])
        return exchanges.exchange(version) if key == FETCH else None

    found = audited(exchange=exchange)
    some_dropped = batch("keep", "drop", "keep", "drop", "keep", base_offset=10)
    all_dropped = batch("drop", "drop", base_offset=15)
    dialogue = found.dialogue.client(fetch())
    dialogue.broker(share_response(1, {"orders": [partition(some_dropped + all_dropped, (10, 16), deliveries=1)]}))
    while dialogue.needs:
        dialogue.meet(asyncio.run(intercepting.perform(dialogue.needs[0])))
    assert acquisitions(found) == [("orders", 0, 3, 10, 14, 1, 2), ("orders", 0, 0, 15, 16, 1, 2)]


def test_a_large_message_is_acquired_once_and_its_slices_are_not_counted() -> None:
    log = Log()
    log.add(b"small")
    log.add_large(bytes(5000), 4, 1, topic_id=ORDERS)
    cluster = Cluster({0: log})
    stage = ShareAssembleStage(lambda topic: cluster.settings, cluster.services)

    def exchange(key: int, version: int) -> Begin | None:
        return (
            MessageExchanges([AcquiredRecords([stage], lambda id_: "orders")]).exchange(version)
            if key == FETCH
            else None
        )

    found = audited(exchange=exchange)
    dialogue = found.dialogue.client(fetch())
    dialogue.broker(share_response(1, {"orders": [partition(log.fetch(0, 1 << 20), (0, 4), deliveries=1)]}))
    assert not dialogue.needs
    assert acquisitions(found) == [("orders", 0, 1, 0, 0, 1, 0), ("orders", 0, 1, 4, 4, 1, 0)]


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


def test_an_acknowledgement_that_cannot_be_read_is_relayed_and_counted_itself() -> None:
    found = audited()
    request = acknowledging(ACKNOWLEDGE, 1, "workers", {"orders": {0: [(0, 9, (ACCEPT,))]}})
    broken = (len(request) - 14).to_bytes(4, "big") + request[4:-10]
    answer = acknowledged(1, {"orders": {0: 0}})
    cut = (len(answer) - 8).to_bytes(4, "big") + answer[4:-4]
    found.dialogue.client(broken).broker(answer).client(request).broker(cut)
    assert found.counting.stats.uncounted == {("ShareAcknowledge", "unreadable"): 2}
    assert found.calls.accepted_ == []
