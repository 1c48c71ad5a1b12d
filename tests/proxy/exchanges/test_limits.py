"""Limits of the requests that exchanges look into, and that the work on many partitions lets others have a turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.client import FAKE_CLIENT, exchange_of
from support.commit_requests import (
    PLAIN,
    begin_commit,
    codes_in,
    commit_request,
    commit_response,
    intercept,
    offsets_in,
    place,
    without,
)
from support.driven import Driven, Step
from support.fetches import begin_fetch, fetch_exchanges, fetch_request
from support.interception import Intercepting, fetch_response
from support.produce_requests import GOOD, Validating, produce_request, results

from kafka_sidecar.codec.errors import TooManyError
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.plugins.effects import TURN, Work
from kafka_sidecar.plugins.values import Offsets
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_ELEMENTS, PARTITIONS_PER_TURN, Limits
from kafka_sidecar.proxy.exchanges.produce import MAX_INLINE_TOPICS, ProduceExchange, ProduceExchanges
from kafka_sidecar.proxy.relay.exchange import Respond, RouteError

FEW = Limits(max_partitions=3, max_records=3)


def produce(validation: Validating, limits: Limits, turns: bool = False) -> Driven:
    return Driven(ProduceExchange([validation.run()], validation.names.name_of, 9, limits), turns)


def test_a_produce_of_too_many_partitions_is_not_looked_into() -> None:
    exchange = produce(Validating(), FEW)
    with pytest.raises(TooManyError, match="4 partitions, more than 3"):
        exchange.request(produce_request(9, {"orders": dict.fromkeys(range(4), GOOD)}))


def test_a_produce_that_names_a_partition_twice_ends_the_connection() -> None:
    frame = produce_request(9, {"orders": {0: GOOD}, "ORDERS": {0: GOOD}}).replace(b"ORDERS", b"orders")
    with pytest.raises(RouteError, match="partition 0 of topic orders is twice in one request") as error:
        produce(Validating(), Limits()).request(frame)
    assert error.value.cause == "duplicate_partition"


def test_a_batch_of_too_many_records_is_rejected_like_one_that_is_too_large() -> None:
    validation = Validating()
    many = build_batch([NewRecord(b"good")] * 4)
    exchange = produce(validation, FEW)
    step, _ = finished(exchange, exchange.request(produce_request(9, {"orders": {0: many}})))
    assert isinstance(step, Respond)
    assert results(9, step.frame)[0][2] == 87
    assert b"the batch has 4 records, more than 3" in step.frame
    assert validation.stats.rejections["orders", "(structure)", "enforce", "unreadable"] == 1


def test_others_have_a_turn_while_the_partitions_of_a_produce_are_rejected() -> None:
    partitions = 4 * PARTITIONS_PER_TURN
    for topics in ({"orders": dict.fromkeys(range(partitions))}, {f"t{at}": {0: None} for at in range(partitions)}):
        exchange = produce(Validating(), Limits(), turns=True)
        needs, step = 0, exchange.request(produce_request(9, topics))
        while step is TURN:
            needs, step = needs + 1, exchange.answer()
        assert isinstance(step, Respond)
        assert needs >= 2 * 4


def test_the_response_for_very_many_partitions_is_built_in_a_thread() -> None:
    exchange = produce(Validating(), Limits())
    step = exchange.request(produce_request(9, {"orders": dict.fromkeys(range(MAX_INLINE_ELEMENTS + 1))}))
    assert isinstance(step, Work)
    step = exchange.answer(step.run())
    assert isinstance(step, Respond)
    assert len(results(9, step.frame)) == MAX_INLINE_ELEMENTS + 1


class Never(Validating):
    """Counts the topics for which a stage is asked."""

    is_stable = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def applies(self, topics: object) -> bool:
        assert isinstance(topics, list)
        self.asked.append(len(topics))
        return not topics

    def start(self, client: object, version: int) -> object:
        return self.run()


def test_stages_are_not_asked_for_very_many_topics_before_the_request_is_buffered() -> None:
    stage = Never()
    exchanges = ProduceExchanges([stage], lambda topic_id: None)  # type: ignore[list-item]
    for topics, looked_into in ((MAX_INLINE_TOPICS, False), (MAX_INLINE_TOPICS + 1, True)):
        frame = produce_request(9, {f"t{at}": {0: None} for at in range(topics)})
        assert (exchanges.begin(9, frame, 0, len(frame), FAKE_CLIENT) is not None) is looked_into
    assert stage.asked == [MAX_INLINE_TOPICS, 0]


def test_a_fetch_of_too_many_partitions_or_a_response_of_them_is_not_looked_into() -> None:
    exchanges = fetch_exchanges(Intercepting("Reads"), FEW)
    frame = fetch_request(12, {"orders": dict.fromkeys(range(4), 0)})
    begun = exchange_of(exchanges.begin(12, frame, 0, len(frame), FAKE_CLIENT))
    assert isinstance(begun, FetchExchange)
    with pytest.raises(TooManyError, match="4 partitions, more than 3"):
        Driven(begun).request(frame)
    few = fetch_request(12, {"orders": dict.fromkeys(range(3), 0)})
    begun = exchange_of(exchanges.begin(12, few, 0, len(few), FAKE_CLIENT))
    assert isinstance(begun, FetchExchange)
    exchange = Driven(begun)
    assert exchange.request(few) is few
    with pytest.raises(TooManyError, match="4 partitions, more than 3"):
        exchange.response(fetch_response(12, {"orders": dict.fromkeys(range(4))}))


def test_a_fetched_batch_of_too_many_records_is_not_intercepted() -> None:
    intercepting = Intercepting("Reads")
    intercepting.services = replace(intercepting.services, max_records=3)
    for records, result in ((3, "changed"), (4, "too_large")):
        exchange = begin_fetch(intercepting)
        exchange.request(fetch_request(12, {"orders": {0: 0}}))
        fetched = fetch_response(12, {"orders": {0: build_batch([NewRecord(b"edit")] * records)}})
        step, _ = finished(exchange, exchange.response(fetched))
        assert (step == fetched) is (result == "too_large")
        assert intercepting.stats.batches["Fetch", result] == 1


def test_a_commit_of_too_many_partitions_is_not_decoded() -> None:
    frame = commit_request(PLAIN, 8, {"orders": dict.fromkeys(range(4), (5, "mine"))})
    intercepting, _ = intercept()
    with pytest.raises(TooManyError, match="4 partitions, more than 3"):
        begin_commit(intercepting, PLAIN, 8, FEW).request(frame)


def test_a_commit_of_very_many_partitions_and_its_response_are_intercepted_in_a_thread() -> None:
    partitions = range(MAX_INLINE_ELEMENTS + 1)
    intercepting, _ = intercept(without(("orders", 0)))
    exchange = begin_commit(intercepting, PLAIN, 8)
    step = exchange.request(commit_request(PLAIN, 8, {"orders": dict.fromkeys(partitions, (5, "mine"))}))
    sent, works = finished(exchange, step)
    assert works == 5  # decoded, read, intercepted, put together again, encoded
    assert offsets_in(PLAIN, 8, sent) == {"orders": dict.fromkeys(partitions[1:], (5, "mine"))}
    step = exchange.response(commit_response(PLAIN, 8, {"orders": dict.fromkeys(partitions[1:], 0)}))
    answered, works = finished(exchange, step)
    assert works == 3  # decoded, completed, encoded
    assert codes_in(PLAIN, 8, answered) == [("orders", at, 0) for at in partitions]


def test_others_have_a_turn_before_a_commit_of_many_partitions_and_its_response_are_looked_into() -> None:
    for partitions, turns in ((PARTITIONS_PER_TURN - 1, 0), (PARTITIONS_PER_TURN, 2)):
        offsets = {"orders": dict.fromkeys(range(partitions), (5, "mine"))}
        intercepting, _ = intercept()
        exchange = begin_commit(intercepting, PLAIN, 8)
        exchange.turns = True
        step, needs = exchange.request(commit_request(PLAIN, 8, offsets)), 0
        while step is TURN:
            step, needs = exchange.answer(), needs + 1
        assert (needs, offsets_in(PLAIN, 8, step)) == (turns, offsets)
        response = commit_response(PLAIN, 8, {"orders": dict.fromkeys(range(partitions), 0)})
        step, needs = exchange.response(response), 0
        while step is TURN:
            step, needs = exchange.answer(), needs + 1
        assert (needs, step) == (turns, response)


def test_offsets_of_a_name_that_no_topic_can_have_are_not_shown_to_interceptors() -> None:
    intercepting, commits = intercept()
    frame = commit_request(PLAIN, 8, {"o" * 250: {0: (5, "mine")}, "orders": {1: (6, "")}})
    assert begin_commit(intercepting, PLAIN, 8).request(frame) is frame
    assert [list(offsets) for offsets in commits.asked] == [[place("orders", 1)]]


def finished(exchange: Driven, step: Step) -> tuple[Step, int]:
    """What becomes of a frame once all work is done, and how often there was some."""
    works = 0
    while isinstance(step, Work):
        works, step = works + 1, exchange.answer(step.run())
    return step, works


def test_what_no_client_would_commit_is_forwarded_unseen_and_no_interceptor_fails_on_it() -> None:
    intercepting, interceptor = intercept()
    wrong = {"orders": {-1: (5, "a"), 0: (-7, "b"), 1: (5, "c")}}
    frame = commit_request(PLAIN, 8, wrong)
    seen: list[object] = []

    def change(offsets: Offsets) -> Offsets:
        seen.extend(offsets)
        return offsets

    interceptor.change = change
    step = begin_commit(intercepting, PLAIN, 8).request(frame)
    assert seen == [("orders", 1)]
    assert finished(begin_commit(intercepting, PLAIN, 8), step)[0] in (frame, None)
    assert not intercepting.catalog.guards[0].failures
