"""Records counted as they are fetched: fetch sessions, pieces, interceptors that hide records."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support import oracle
from support.auditing import NOW_MS, Audited
from support.broker_responses import DOMAIN, broker, named
from support.dialogue import Dialogue, pieces
from support.fetches import VERSIONS, fetch_exchanges, fetch_request
from support.interception import Intercepting, fetch_response
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.proxy.exchanges.fetch import FetchExchanges
from kafka_sidecar.proxy.features.interception.consume_stage import ConsumeStage
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage
from kafka_sidecar.proxy.relay.exchange import Begin

SESSION = 77
each_version = pytest.mark.parametrize("version", VERSIONS)
Delivery = tuple[str, int, int, int, int]  # topic, partition, records, first offset, last offset


def records(base: int, count: int = 3, size: int = 10, time: int = NOW_MS - 500) -> bytes:
    return build_batch([NewRecord(b"v" * size) for _ in range(count)], base_offset=base, max_timestamp=time)


def audited(version: int, **settings: object) -> Audited:
    found = Audited(**settings)  # type: ignore[arg-type]
    found.dialogue.topics.remember((topic_id(name), name) for name in ("orders", "free"))
    return found


def deliveries(found: Audited) -> list[Delivery]:
    return [
        (topic, index, count, first, last) for _, topic, index, _, count, _, first, last, *_ in found.calls.delivered_
    ]


@each_version
def test_each_batch_is_counted_from_the_offset_that_was_asked_for(version: int) -> None:
    found = audited(version)
    answer = fetch_response(version, {"orders": {0: records(10) + records(13)}, "free": {2: records(7)}})
    found.dialogue.client(fetch_request(version, {"orders": {0: 12}, "free": {2: 7}})).broker(answer)
    assert deliveries(found) == [("orders", 0, 1, 12, 12), ("orders", 0, 3, 13, 15), ("free", 2, 3, 7, 9)]
    assert found.calls.delivered_[0] == (
        None, "orders", 0, NOW_MS - 500, 1, len(records(10)), 12, 12, pytest.approx(0.5), 0, 0,
    )  # fmt: skip
    assert found.dialogue.to_client == answer


@pytest.mark.parametrize("cuts", [[40], [200, 90_000], list(range(0, 300_000, 7000))])
def test_what_is_counted_is_rewritten_as_without_an_audit(cuts: list[int]) -> None:
    """Both look at each piece of a long response, at whose end brokers' addresses are."""
    data = [{"partition_index": index, "records": records(10, 90, 1000)} for index in (0, 1)]
    topics = [{"topic_id": topic_id("orders"), "partitions": data}]
    answer = oracle.response_frame(named(ApiKey.FETCH, 17, responses=topics, node_endpoints=[broker(10)]), 7)
    found = audited(17)
    request = fetch_request(17, {"orders": {0: 10, 1: 20}})
    relayed = Dialogue().client(request).broker(*pieces(answer, cuts)).to_client
    assert found.dialogue.client(request).broker(*pieces(answer, cuts)).to_client == relayed
    assert DOMAIN not in relayed
    assert relayed != answer
    assert deliveries(found) == [("orders", 0, 90, 10, 99), ("orders", 1, 80, 20, 99)]


@given(
    version=some.sampled_from(VERSIONS),
    cuts=some.lists(some.integers(0, 300_000), max_size=8),
    request_cuts=some.lists(some.integers(0, 300), max_size=4),
)
def test_responses_that_come_in_pieces_count_the_same(version: int, cuts: list[int], request_cuts: list[int]) -> None:
    found = audited(version)
    long = records(10, 90, 1000)
    answer = fetch_response(version, {"orders": {0: long + records(100), 1: records(5)}, "free": {0: long}})
    found.dialogue.client(*pieces(fetch_request(version, {"orders": {0: 20}}), request_cuts))
    found.dialogue.broker(*pieces(answer, cuts))
    assert deliveries(found) == [
        ("orders", 0, 80, 20, 99), ("orders", 0, 3, 100, 102), ("orders", 1, 3, 5, 7), ("free", 0, 90, 10, 99),
    ]  # fmt: skip
    assert found.dialogue.to_client == answer


@given(
    version=some.sampled_from(VERSIONS),
    asked=some.lists(some.dictionaries(some.integers(0, 2), some.integers(0, 3), min_size=1), min_size=3),
    in_flight=some.integers(1, 12),
    counts_later=some.booleans(),
)
def test_requests_one_after_the_other_are_each_counted_from_their_offsets(
    version: int, asked: list[dict[int, int]], in_flight: int, counts_later: bool
) -> None:
    found = audited(version, counts_later=counts_later)
    for begin in range(0, len(asked), in_flight):
        window = asked[begin : begin + in_flight]
        for offsets in window:
            found.dialogue.client(fetch_request(version, {"orders": offsets}))
        for offsets in window:
            found.dialogue.broker(fetch_response(version, {"orders": {index: records(0, 4) for index in offsets}}))
    found.wait()
    assert deliveries(found) == [
        ("orders", index, 4 - offset, offset, 3) for offsets in asked for index, offset in offsets.items()
    ]


def test_a_request_that_cannot_be_read_does_not_have_the_offsets_of_the_one_before() -> None:
    found = audited(12)
    answer = fetch_response(12, {"orders": {0: records(10)}})
    request = fetch_request(12, {"orders": {0: 12}})
    broken = (len(request) - 14).to_bytes(4, "big") + request[4:-10]
    found.dialogue.client(request).broker(answer).client(broken).broker(answer)
    assert deliveries(found) == [("orders", 0, 1, 12, 12), ("orders", 0, 3, 10, 12)]


def test_a_response_before_the_end_of_its_request_does_not_change_how_the_next_one_is_counted() -> None:
    found = audited(12)
    request, answer = fetch_request(12, {"orders": {0: 12}}), fetch_response(12, {"orders": {0: records(10)}})
    found.dialogue.client(request[:30]).broker(answer).client(request[30:40], request[40:])
    for _ in range(2):
        found.dialogue.client(request).broker(answer)
    assert deliveries(found) == [("orders", 0, 3, 10, 12), *[("orders", 0, 1, 12, 12)] * 2]
    assert not found.counting.stats.uncounted


def test_a_response_in_pieces_does_not_change_how_the_next_one_is_counted() -> None:
    found = audited(12)
    request, answer = fetch_request(12, {"orders": {0: 12}}), fetch_response(12, {"orders": {0: records(10)}})
    for _ in range(2):
        found.dialogue.client(request).broker(answer[:30], answer[30:90], answer[90:])
        found.dialogue.client(request).broker(answer)
    assert deliveries(found) == [("orders", 0, 1, 12, 12)] * 4
    assert not found.counting.stats.uncounted


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_a_fetch_session_remembers_the_offsets_that_are_not_named_again(version: int) -> None:
    found = audited(version)

    def fetch(topics: dict[str, dict[int, int]], epoch: int, *answered: tuple[str, int]) -> None:
        request = fetch_request(version, topics, epoch=epoch, session=SESSION if epoch else 0)
        by_topic: dict[str, dict[int, bytes]] = {}
        for name, index in answered:
            by_topic.setdefault(name, {})[index] = records(10)
        found.dialogue.client(request).broker(fetch_response(version, by_topic, session_id=SESSION))

    fetch({"orders": {0: 11, 1: 12}}, 0, ("orders", 0))
    fetch({"orders": {0: 13}}, 3, ("orders", 1))
    fetch({"orders": {1: 11}}, 4, ("orders", 1))
    assert deliveries(found) == [("orders", 0, 2, 11, 12), ("orders", 1, 1, 12, 12), ("orders", 1, 2, 11, 12)]


def test_a_response_that_is_cut_by_the_end_of_the_connection_is_not_delivered() -> None:
    found = audited(12)
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}}))
    found.dialogue.broker(fetch_response(12, {"orders": {0: records(0)}})[:-1])
    found.dialogue.session.lost("the broker closed its connection")
    assert deliveries(found) == []


def test_a_response_after_the_client_has_closed_is_relayed_and_not_delivered() -> None:
    found = audited(12)
    answer = fetch_response(12, {"orders": {0: records(0)}})
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}}))
    found.dialogue.session.client_ended()
    found.dialogue.broker(answer)
    assert deliveries(found) == []
    assert found.dialogue.to_client == answer


def test_excluded_topics_are_not_counted_and_unknown_ids_later() -> None:
    found = Audited(excluded=("free",))
    found.dialogue.topics.remember([(topic_id("free"), "free")])
    found.dialogue.client(fetch_request(13, {"orders": {0: 0}, "free": {0: 0}}))
    found.dialogue.broker(fetch_response(13, {"orders": {0: records(0)}, "free": {0: records(0)}}))
    assert deliveries(found) == []
    found.dialogue.topics.remember([(topic_id("orders"), "orders")])
    found.requested[0][1]()
    assert deliveries(found) == [("orders", 0, 3, 0, 2)]


@pytest.mark.parametrize("damaged", [b"\xff" * 30, b""])
def test_what_cannot_be_counted_is_relayed_and_counted_itself(damaged: bytes) -> None:
    found = audited(12)
    answer = fetch_response(12, {"orders": {0: records(0)}})
    answer = answer.replace(records(0)[:30], damaged) if damaged else answer[:3] + b"\x09" + answer[4:13]
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}})).broker(answer)
    assert found.dialogue.to_client == answer
    assert found.counting.stats.uncounted == {("Fetch", "unreadable"): 1}


def test_a_response_after_one_that_cannot_be_read_is_counted() -> None:
    found = audited(12)
    answer = fetch_response(12, {"orders": {0: records(0)}})
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}})).broker(answer.replace(records(0)[:30], b"\xff" * 30))
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}})).broker(answer)
    assert found.counting.stats.uncounted == {("Fetch", "unreadable"): 1}
    assert deliveries(found) == [("orders", 0, 3, 0, 2)]


def test_a_request_that_cannot_be_read_is_counted_itself() -> None:
    found = audited(12)
    request = fetch_request(12, {"orders": {0: 9}})
    broken = (len(request) - 14).to_bytes(4, "big") + request[4:-10]
    found.dialogue.client(broken).broker(fetch_response(12, {"orders": {0: records(0)}}))
    assert found.dialogue.to_broker == broken
    assert found.counting.stats.uncounted == {("Fetch", "unreadable"): 1}
    assert deliveries(found) == [("orders", 0, 3, 0, 2)]


def test_an_auditor_that_fails_costs_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    found = audited(12)
    found.calls.fails = True
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}})).broker(fetch_response(12, {"orders": {0: records(0)}}))
    assert found.dialogue.cause is None
    assert found.counting.stats.uncounted == {("Fetch", "auditor_failed"): 1}
    assert [record.message for record in caplog.records] == ["auditor failed"]


def intercepted(version: int, *types: str) -> tuple[Audited, Intercepting]:
    intercepting = Intercepting(*types)

    def exchange(key: int, version: int) -> Begin | None:
        return fetch_exchanges(intercepting).exchange(version) if key == ApiKey.FETCH else None

    return audited(version, exchange=exchange), intercepting


@pytest.mark.parametrize("version", [4, 12, 13])
def test_records_that_an_interceptor_hides_are_counted_apart(version: int) -> None:
    found, intercepting = intercepted(version, "Reads")
    some_dropped = batch("keep", "drop", "keep", "drop", "keep", base_offset=10)
    all_dropped = batch("drop", "drop", base_offset=15)
    dialogue = found.dialogue.client(fetch_request(version, {"orders": {0: 10}, "free": {1: 0}}))
    dialogue.broker(fetch_response(version, {"orders": {0: some_dropped + all_dropped}, "free": {1: all_dropped}}))
    while dialogue.needs:
        dialogue.meet(asyncio.run(intercepting.perform(dialogue.needs[0])))
    assert [(*call[1:3], call[4], *call[6:8], *call[9:]) for call in found.calls.delivered_] == [
        ("orders", 0, 3, 10, 14, 2, 0), ("orders", 0, 0, 15, 16, 2, 0), ("free", 1, 2, 15, 16, 0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("is_intercepted", [False, True])
@pytest.mark.parametrize("version", [12, 13])
def test_a_large_message_is_counted_once_and_its_slices_are_not(version: int, is_intercepted: bool) -> None:
    log, intercepting = Log(), Intercepting("Reads")
    log.add(b"drop", b"keep")
    log.add_large(bytes(5000), 4, 1, topic_id=ORDERS)
    cluster = Cluster({0: log})
    assemble = AssembleStage(lambda topic: cluster.settings if topic == "orders" else None, cluster.services)
    intercept = ConsumeStage(intercepting.catalog.consumers, False, intercepting.services)
    stages = [assemble, intercept] if is_intercepted else [assemble]

    def exchange(key: int, version: int) -> Begin | None:
        return FetchExchanges(stages, lambda id_: "orders").exchange(version) if key == ApiKey.FETCH else None

    found = audited(version, exchange=exchange)
    dialogue = found.dialogue.client(fetch_request(version, {"orders": {0: 0}}))
    dialogue.broker(fetch_response(version, {"orders": {0: log.fetch(0, 1 << 20)}}))
    while dialogue.needs:
        dialogue.meet(asyncio.run(intercepting.perform(dialogue.needs[0])))
    hidden = 1 if is_intercepted else 0
    assert [(*call[1:3], call[4], *call[6:8], call[9]) for call in found.calls.delivered_] == [
        ("orders", 0, 2 - hidden, 0, 1, hidden), ("orders", 0, 1, 5, 5, 0),
    ]  # fmt: skip
    assert found.calls.delivered_[1][5] > 5000  # the bytes are those of the whole message


def test_records_that_an_interceptor_changes_are_delivered() -> None:
    found, _ = intercepted(12, "Reads")
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}}))
    found.dialogue.broker(fetch_response(12, {"orders": {0: batch("edit", "keep")}}))
    assert deliveries(found) == [("orders", 0, 2, 0, 1)]
    assert b"edited" in found.dialogue.to_client
