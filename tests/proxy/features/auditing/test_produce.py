"""Records counted as they are produced: whole and in pieces, relayed and through exchanges."""

from __future__ import annotations

import asyncio
import datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support import oracle
from support.auditing import Audited
from support.dialogue import pieces
from support.produce_requests import (
    BAD,
    FIRST_WITH_IDS,
    GOOD,
    VERSIONS,
    batch,
    produce_request,
    produce_response,
    topic_id,
    validating,
)

from kafka_sidecar.audit.contract import Result
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.features.auditing.connection import MAX_COUNTERS
from kafka_sidecar.proxy.relay.exchange import Begin

THREE = batch("a", "b", "c")
ACKED, FAILED, REJECTED, UNKNOWN, UNCONFIRMED = (
    Result.ACKED, Result.FAILED, Result.REJECTED, Result.UNKNOWN, Result.UNCONFIRMED,
)  # fmt: skip
TOPICS = ("orders", "free")
NAMES = some.sampled_from(TOPICS)
each_version = pytest.mark.parametrize("version", VERSIONS)


def audited(version: int, *names: str, **settings: object) -> Audited:
    found = Audited(**settings)  # type: ignore[arg-type]
    if version >= FIRST_WITH_IDS:
        found.dialogue.topics.remember((topic_id(name), name) for name in names or ("orders", "free"))
    return found


def batches_of(number: int) -> bytes:
    """One batch, or two of them."""
    return GOOD + (THREE if number % 2 else b"")


@each_version
def test_each_batch_is_counted_with_its_offset(version: int) -> None:
    found = audited(version)
    request = produce_request(version, {"orders": {0: GOOD, 3: THREE}, "free": {1: THREE}})
    answer = produce_response(version, {"orders": {0: 10, 3: 20}, "free": {1: 30}})
    found.dialogue.client(request)
    assert found.calls.results == []
    found.dialogue.now = 0.25
    found.dialogue.broker(answer)
    assert found.calls.results == [
        ("orders", 0, 1, ACKED, 10), ("orders", 3, 3, ACKED, 20), ("free", 1, 3, ACKED, 30),
    ]  # fmt: skip
    assert [call[4] for call in found.calls.produced_] == [len(GOOD), len(THREE), len(THREE)]
    assert {call[-1] for call in found.calls.produced_} == {0.25}
    assert found.calls.clients[0].client_id == "app"
    assert (found.dialogue.to_broker, found.dialogue.to_client) == (request, answer)


@given(
    version=some.sampled_from(VERSIONS),
    cuts=some.lists(some.integers(0, 10_000), max_size=8),
    answer_cuts=some.lists(some.integers(0, 1_000), max_size=5),
)
def test_frames_that_come_in_pieces_count_the_same(version: int, cuts: list[int], answer_cuts: list[int]) -> None:
    long = build_batch([NewRecord(b"x" * 700) for _ in range(5)])
    requests = produce_request(version, {"orders": {0: long, 1: THREE}, "free": {1: long}})
    requests += produce_request(version, {"orders": {0: THREE}}, correlation_id=8)
    answers = produce_response(version, {"orders": {0: 10, 1: 20}, "free": {1: 30}})
    answers += produce_response(version, {"orders": {0: 40}}, correlation_id=8)
    found = audited(version)
    found.dialogue.client(*pieces(requests, cuts)).broker(*pieces(answers, answer_cuts))
    assert found.calls.results == [
        ("orders", 0, 5, ACKED, 10), ("orders", 1, 3, ACKED, 20), ("free", 1, 5, ACKED, 30),
        ("orders", 0, 3, ACKED, 40),
    ]  # fmt: skip
    assert (found.dialogue.to_broker, found.dialogue.to_client) == (requests, answers)


@given(
    version=some.sampled_from((8, 9, 13)),
    sent=some.lists(some.lists(some.tuples(NAMES, some.integers(0, 2)), min_size=1, unique=True), min_size=3),
    whole=some.integers(0, 4),
    in_flight=some.integers(1, 12),
    counts_later=some.booleans(),
)
def test_requests_one_after_the_other_are_each_counted_as_they_are(
    version: int, sent: list[list[tuple[str, int]]], whole: int, in_flight: int, counts_later: bool
) -> None:
    found = audited(version, counts_later=counts_later)
    for begin in range(0, len(sent), in_flight):
        window = list(enumerate(sent))[begin : begin + in_flight]
        for number, partitions in window:
            data = {name: {index: batches_of(number) for one, index in partitions if one == name} for name in TOPICS}
            request = produce_request(version, {name: each for name, each in data.items() if each})
            found.dialogue.client(*pieces(request, [] if number % 5 <= whole else [60 + number]))
        for number, partitions in window:
            offsets = {name: {index: number for one, index in partitions if one == name} for name in TOPICS}
            found.dialogue.broker(produce_response(version, {name: each for name, each in offsets.items() if each}))
    expected = []
    for number, partitions in enumerate(sent):
        for name, index in sorted(partitions, key=lambda one: TOPICS.index(one[0])):
            expected += [(name, index, 1, ACKED, number), (name, index, 3, ACKED, number + 1)][: 1 + number % 2]
    found.wait()
    assert found.calls.results == expected


def test_a_request_that_is_lost_before_its_batches_counts_nothing_of_the_one_before() -> None:
    found = audited(9)
    request = produce_request(9, {"orders": {0: GOOD}})
    found.dialogue.client(request).broker(produce_response(9, {"orders": {0: 10}}))
    found.dialogue.client(request[: request.index(b"orders")]).session.lost("the client closed its connection")
    assert found.calls.results == [("orders", 0, 1, ACKED, 10)]


def test_an_exchange_that_is_lost_with_half_a_request_counts_nothing_of_the_request_before() -> None:
    begun = iter([None, ProduceExchange([], lambda topic_id: None, 9)])
    found = audited(9, exchange=lambda key, version: lambda data, at, size, client: next(begun))
    request = produce_request(9, {"orders": {0: GOOD}})
    found.dialogue.client(request).broker(produce_response(9, {"orders": {0: 10}}))
    found.dialogue.client(request[:-1]).session.lost("the client closed its connection")
    assert found.calls.results == [("orders", 0, 1, ACKED, 10)]


@each_version
def test_the_event_time_is_the_greatest_of_the_batch_or_the_brokers(version: int) -> None:
    timed = THREE[:35] + (3000).to_bytes(8, "big") + THREE[43:]
    found = audited(version)
    found.dialogue.client(produce_request(version, {"orders": {0: timed}}) * 2)
    found.dialogue.broker(produce_response(version, {"orders": {0: 1}}))
    at = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    partition = {"index": 0, "base_offset": 2, "log_append_time": at}
    topic = {"name": "orders", "topic_id": topic_id("orders"), "partition_responses": [partition]}
    found.dialogue.broker(oracle.response_frame(oracle.response(ApiKey.PRODUCE, version, responses=[topic]), 7))
    assert [call[2] for call in found.calls.produced_] == [3000, int(at.timestamp() * 1000)]


def test_an_error_of_the_broker_is_a_failure_and_a_duplicate_is_a_success() -> None:
    found = audited(9)
    errors = [{"index": 0, "error_code": 6}, {"index": 1, "error_code": 46, "base_offset": -1}, {"index": 2}]
    answer = oracle.response(ApiKey.PRODUCE, 9, responses=[{"name": "orders", "partition_responses": errors}])
    found.dialogue.client(produce_request(9, {"orders": {0: GOOD, 1: GOOD, 2: GOOD, 5: GOOD}}))
    found.dialogue.broker(oracle.response_frame(answer, 7))
    assert found.calls.results == [
        ("orders", 0, 1, FAILED, -1), ("orders", 1, 1, ACKED, -1), ("orders", 2, 1, ACKED, 0),
        ("orders", 5, 1, UNKNOWN, -1),
    ]  # fmt: skip


@each_version
def test_without_acks_records_are_unconfirmed(version: int) -> None:
    found = audited(version)
    request = produce_request(version, {"orders": {0: GOOD}}, acks=0)
    found.dialogue.client(request, *pieces(request, [30, len(request) - 5]))
    assert found.calls.results == [("orders", 0, 1, UNCONFIRMED, -1)] * 2


@each_version
def test_a_lost_connection_leaves_the_result_unknown(version: int) -> None:
    found = audited(version)
    first = produce_request(version, {"orders": {0: GOOD}})
    second = produce_request(version, {"orders": {1: THREE}}, correlation_id=8)
    found.dialogue.client(first, second).broker(produce_response(version, {"orders": {0: 5}})[:-2])
    assert found.calls.results == []
    found.dialogue.session.lost("the broker closed its connection")
    assert found.calls.results == [("orders", 0, 1, UNKNOWN, -1), ("orders", 1, 3, UNKNOWN, -1)]


@pytest.mark.bulk
def test_more_partitions_than_a_connection_keeps_counters_for_are_counted() -> None:
    found = audited(9)
    indexes = range(MAX_COUNTERS + 1)
    found.dialogue.client(produce_request(9, {"orders": dict.fromkeys(indexes, GOOD)}))
    found.dialogue.broker(produce_response(9, {"orders": {index: index for index in reversed(indexes)}}))
    assert found.calls.results == [("orders", index, 1, ACKED, index) for index in indexes]


def test_excluded_topics_are_not_counted() -> None:
    found = audited(9, excluded=("__audit",))
    found.dialogue.client(produce_request(9, {"__audit": {0: GOOD}, "orders": {0: GOOD}}))
    found.dialogue.broker(produce_response(9, {"__audit": {0: 1}, "orders": {0: 2}}))
    assert found.calls.results == [("orders", 0, 1, ACKED, 2)]


def test_a_topic_id_without_a_name_is_counted_once_the_name_is_known() -> None:
    found = Audited()
    found.dialogue.client(produce_request(13, {"orders": {0: GOOD}, "gone": {0: GOOD}}))
    found.dialogue.broker(produce_response(13, {"orders": {0: 1}, "gone": {0: 2}}))
    assert found.calls.results == []
    assert [topic for topic, _ in found.requested] == [topic_id("orders"), topic_id("gone")]
    found.dialogue.topics.remember([(topic_id("orders"), "orders")])
    for _, done in found.requested:
        done()
    assert found.calls.results == [("orders", 0, 1, ACKED, 1)]
    assert found.counting.stats.unnamed == 1


def test_what_cannot_be_counted_is_relayed_and_counted_itself() -> None:
    found = audited(9)
    broken = produce_request(9, {"orders": {0: GOOD[:40], 1: GOOD}})
    found.dialogue.client(broken, *pieces(broken, [70]))
    answer = produce_response(9, {"orders": {0: 1, 1: 2}})
    found.dialogue.broker(answer)
    assert found.dialogue.to_broker == broken * 2
    assert found.dialogue.to_client == answer
    assert found.counting.stats.uncounted == {("Produce", "unreadable"): 2}


def test_requests_of_one_connection_are_counted_one_by_one_whatever_came_before() -> None:
    found = audited(9)
    long = build_batch([NewRecord(b"x" * 700)])
    unreadable = bytearray(produce_request(9, {"orders": {4: long, 5: long}}, correlation_id=1))
    unreadable[unreadable.rindex(long) + 16] = 9  # the magic of the last batch
    found.dialogue.client(bytes(unreadable))
    found.dialogue.client(produce_request(9, {"orders": {1: THREE}}, correlation_id=2))
    found.dialogue.client(produce_request(7, {"free": {2: GOOD}}, correlation_id=3))
    found.dialogue.client(produce_request(9, {"orders": {3: THREE}}, correlation_id=4))
    found.dialogue.broker(produce_response(9, {"orders": {4: 10, 5: 20}}, correlation_id=1))
    found.dialogue.broker(produce_response(9, {"orders": {1: 30}}, correlation_id=2))
    found.dialogue.broker(produce_response(7, {"free": {2: 40}}, correlation_id=3))
    found.dialogue.broker(produce_response(9, {"orders": {3: 50}}, correlation_id=4))
    assert found.calls.results == [
        ("orders", 4, 1, ACKED, 10), ("orders", 1, 3, ACKED, 30), ("free", 2, 1, ACKED, 40),
        ("orders", 3, 3, ACKED, 50),
    ]  # fmt: skip
    assert found.counting.stats.uncounted == {("Produce", "unreadable"): 1}


def test_an_auditor_that_fails_costs_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    found = audited(9)
    found.calls.fails = True
    for _ in range(2):
        found.dialogue.client(produce_request(9, {"orders": {0: GOOD}})).broker(produce_response(9, {"orders": {0: 1}}))
    assert found.dialogue.cause is None
    assert found.counting.stats.uncounted == {("Produce", "auditor_failed"): 2}
    assert [record.message for record in caplog.records] == ["auditor failed"]


@pytest.mark.parametrize("is_first_late", [False, True])
def test_the_later_copy_of_what_a_client_sends_again_is_named_by_its_offset(is_first_late: bool) -> None:
    found = audited(9)
    first, again = found.dialogue, found.another()
    first.client(produce_request(9, {"orders": {0: GOOD, 1: THREE}})).session.client_ended()
    again.client(produce_request(9, {"orders": {0: GOOD}}))
    responses = [
        (first, produce_response(9, {"orders": {0: 10, 1: 20}})), (again, produce_response(9, {"orders": {0: 11}})),
    ]  # fmt: skip
    for dialogue, response in reversed(responses) if is_first_late else responses:
        dialogue.broker(response)
    time = found.calls.produced_[0][2]
    assert found.calls.duplicated_ == [("orders", 0, time, 1, 11, True)]
    assert sorted(found.calls.results) == [
        ("orders", 0, 1, ACKED, 10), ("orders", 0, 1, ACKED, 11), ("orders", 1, 3, ACKED, 20),
    ]  # fmt: skip
    first.session.client_ended()  # as when the connection is gone
    assert len(found.counting.copies.attempts) == 1  # what may still be sent again


def test_a_copy_of_what_had_no_response_may_be_the_only_one() -> None:
    found = audited(9)
    found.dialogue.client(produce_request(9, {"orders": {0: GOOD}})).session.lost("the broker closed its connection")
    found.another().client(produce_request(9, {"orders": {0: GOOD}})).broker(produce_response(9, {"orders": {0: 11}}))
    assert [call[3:] for call in found.calls.duplicated_] == [(1, 11, False)]


def test_a_broker_recognises_copies_of_an_idempotent_producer() -> None:
    found = audited(9)
    request = produce_request(9, {"orders": {0: batch("a", producer_id=7, producer_epoch=0, base_sequence=0)}})
    found.dialogue.client(request).session.lost("the broker closed its connection")
    found.another().client(request).broker(produce_response(9, {"orders": {0: 11}}))
    assert found.calls.duplicated_ == []


class Checked:
    """A dialogue whose requests are validated, and audited."""

    def __init__(self) -> None:
        self.rules = validating()
        self.audited = Audited(exchange=self._exchange)

    def _exchange(self, key: int, version: int) -> Begin | None:
        return partial(self._begin, version) if key == ApiKey.PRODUCE else None

    def _begin(self, version: int, *_: object) -> ProduceExchange:
        return ProduceExchange([self.rules.run()], self.rules.names.name_of, version)

    def run(self, request: bytes, *answers: bytes) -> Audited:
        dialogue = self.audited.dialogue
        dialogue.client(request)
        while dialogue.needs:
            dialogue.meet(asyncio.run(self.rules.perform(dialogue.needs[0])))
        dialogue.broker(*answers)
        return self.audited


@pytest.mark.parametrize("version", [3, 9, 12])
def test_rejected_partitions_differ_from_failed_ones(version: int) -> None:
    found = Checked().run(
        produce_request(version, {"orders": {0: GOOD, 1: BAD}}), produce_response(version, {"orders": {0: 10}})
    )
    assert found.calls.results == [("orders", 0, 1, ACKED, 10), ("orders", 1, 4, REJECTED, -1)]


def test_copies_of_what_is_validated_are_named() -> None:
    checked = Checked()
    found = checked.run(produce_request(9, {"orders": {0: GOOD}}))
    found.dialogue.session.client_ended()
    again = found.another().client(produce_request(9, {"orders": {0: GOOD}}))
    while again.needs:
        again.meet(asyncio.run(checked.rules.perform(again.needs[0])))
    again.broker(produce_response(9, {"orders": {0: 11}}))
    found.dialogue.broker(produce_response(9, {"orders": {0: 10}}))
    assert [call[3:] for call in found.calls.duplicated_] == [(1, 11, True)]


def test_a_request_that_is_rejected_whole_is_counted() -> None:
    found = Checked().run(produce_request(9, {"orders": {0: BAD}}))
    assert found.calls.results == [("orders", 0, 4, REJECTED, -1)]


def test_without_acks_what_is_rejected_is_counted_too() -> None:
    found = Checked().run(produce_request(9, {"orders": {0: GOOD, 1: BAD}}, acks=0))
    assert found.calls.results == [("orders", 0, 1, UNCONFIRMED, -1), ("orders", 1, 4, REJECTED, -1)]


def test_a_validated_request_whose_response_is_lost_is_unknown() -> None:
    found = Checked().run(produce_request(9, {"orders": {0: GOOD}}))
    found.dialogue.session.lost("the broker closed its connection")
    assert found.calls.results == [("orders", 0, 1, UNKNOWN, -1)]


def test_a_response_that_cannot_be_read_leaves_the_results_unknown() -> None:
    found = audited(9)
    answer = produce_response(9, {"orders": {0: 10}})
    cut = (len(answer) - 14).to_bytes(4, "big") + answer[4:-10]
    found.dialogue.client(produce_request(9, {"orders": {0: GOOD}})).broker(*pieces(cut, [15]))
    assert found.dialogue.to_client == cut
    assert found.calls.results == [("orders", 0, 1, UNKNOWN, -1)]
    assert found.counting.stats.uncounted == {("Produce", "unreadable"): 1}


def test_a_long_request_is_stepped_over() -> None:
    found = audited(9)
    long = build_batch([NewRecord(b"x" * 1000) for _ in range(100)])
    request = produce_request(9, {"orders": {0: long, 1: THREE}})
    found.dialogue.client(*pieces(request, list(range(0, len(request), 1000))))
    found.dialogue.broker(*pieces(produce_response(9, {"orders": {0: 1, 1: 2}}), [20]))
    assert found.calls.results == [("orders", 0, 100, ACKED, 1), ("orders", 1, 3, ACKED, 2)]
    assert found.dialogue.to_broker == request
