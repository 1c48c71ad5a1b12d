"""What interceptors of producers are notified of: each record once, whatever ends its request."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.driven import Driven
from support.in_process import until
from support.interception import NOW, Intercepting
from support.produce_requests import (
    FIRST_WITH_IDS,
    GUARDED,
    INVALID_RECORD,
    Validating,
    batch,
    produce_request,
    produce_response,
    results,
    topic_id,
)
from support.sent_records import ADDED, FEWER, answer, each_version, errors, offsets, with_headers

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.interceptors.contract import SendError
from kafka_sidecar.plugins.effects import TURN, Need, Work
from kafka_sidecar.proxy.features.interception import send_stage
from kafka_sidecar.proxy.features.validation.stage import PolicyFetch
from kafka_sidecar.proxy.relay.exchange import Last, Respond
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import Threads

Event = tuple[str, int]


@each_version
def test_each_record_is_acknowledged_with_all_that_is_known_of_it(version: int) -> None:
    interception = Intercepting("Adds")
    (adds,) = interception.interceptors
    exchange = interception.produce(version)
    records = build_batch([NewRecord(b"four", b"key", timestamp_delta=7), NewRecord(None, None)], base_timestamp=NOW)
    exchange.request(produce_request(version, {"orders": {5: records}, "free": {0: batch("x")}}))
    answer = produce_response(version, {"orders": {5: 40}, "free": {0: 7}})
    assert exchange.response(answer) is answer
    first, second = [metadata for metadata, _ in adds.acknowledged]
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("orders", 5, 40, NOW + 7)
    assert (first.serialized_key_size, first.serialized_value_size) == (3, 4)
    assert (second.offset, second.timestamp) == (41, NOW)
    assert (second.serialized_key_size, second.serialized_value_size) == (-1, -1)
    assert errors(adds.acknowledged) == [None, None]
    assert adds.headers == [[ADDED], [ADDED]]
    context = first.context
    assert (context.client_id, context.session, context.api_version) == ("app", 7, version)
    assert context.transactional_id == "tx"


@each_version
def test_where_the_broker_sets_the_time_that_is_the_time_of_all_records(version: int) -> None:
    interception = Intercepting("Adds", "Listens")
    exchange = interception.produce(version)
    exchange.request(produce_request(version, {"orders": {0: batch("a", "b")}}))
    frame = oracle.response(
        ApiKey.PRODUCE, version,
        responses=[{"name": "orders", "topic_id": topic_id("orders"), "partition_responses": [{"base_offset": 5}]}],
    )  # fmt: skip
    at = oracle.response_frame(frame, 7)
    timed = bytearray(at)
    place = at.rindex((5).to_bytes(8, "big")) + 8
    timed[place : place + 8] = (NOW + 9).to_bytes(8, "big")
    exchange.response(bytes(timed))
    for one in interception.interceptors:
        assert [metadata.timestamp for metadata, _ in one.acknowledged] == [NOW + 9] * 2
        assert offsets(one.acknowledged) == [5, 6]


@each_version
@pytest.mark.parametrize(("code", "retriable"), [(3, True), (10, False), (87, False), (-1, False), (19, True)])
def test_a_brokers_error_is_acknowledged_with_its_code_and_no_metadata(
    version: int, code: int, retriable: bool
) -> None:
    interception = Intercepting("Adds")
    (adds,) = interception.interceptors
    exchange = interception.produce(version)
    exchange.request(produce_request(version, {"orders": {0: batch("a", "b")}}))
    given = {"error_message": "no room"} if version >= 8 else {}
    frame = answer(version, error_code=code, base_offset=-1, **given)
    assert exchange.response(frame) is frame
    text = "no room" if version >= 8 else f"the broker responded with error code {code}"
    assert errors(adds.acknowledged) == [(text, code, retriable)] * 2
    for metadata, _ in adds.acknowledged:
        assert metadata[:6] == ("orders", 0, -1, -1, -1, -1)


@pytest.mark.parametrize("base", [-1, 17])
def test_what_was_written_before_is_a_success(base: int) -> None:
    interception = Intercepting("Adds")
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": {0: batch("a", "b")}}))
    exchange.response(answer(9, error_code=46, base_offset=base))
    (adds,) = interception.interceptors
    assert errors(adds.acknowledged) == [None, None]
    assert offsets(adds.acknowledged) == ([17, 18] if base >= 0 else [-1, -1])


@each_version
def test_with_acks_0_it_is_acknowledged_at_once_without_an_offset(version: int) -> None:
    interception = Intercepting("Adds", "Listens")
    exchange = interception.produce(version)
    out = exchange.request(produce_request(version, {"orders": {0: batch("a", "b")}}, acks=0))
    assert out == produce_request(version, {"orders": {0: with_headers("a", "b")}}, acks=0)
    assert not exchange.wants_response
    adds, listens = interception.interceptors
    assert offsets(adds.acknowledged) == offsets(listens.acknowledged) == [-1, -1]
    assert errors(adds.acknowledged) == [None, None]
    assert [metadata.serialized_value_size for metadata, _ in adds.acknowledged] == [1, 1]
    exchange.lost("the connection has ended")
    assert len(adds.acknowledged) == 2


@each_version
def test_a_request_rejected_as_a_whole_is_acknowledged_with_its_local_response(version: int) -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    (adds,) = interception.interceptors
    exchange = interception.produce(version, validation)
    step = exchange.request(produce_request(version, {"orders": {4: batch("bad", "good")}}))
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [("orders", 4, INVALID_RECORD, -1)]
    beside_it = -1 if version >= 8 else INVALID_RECORD  # before, answers do not say which is bad
    assert [error and error[1] for error in errors(adds.acknowledged)] == [INVALID_RECORD, beside_it]
    assert adds.values == []
    exchange.lost("later")
    assert len(adds.acknowledged) == 2


@each_version
def test_with_acks_0_rejected_records_are_acknowledged_and_the_rest_is_the_last_request(version: int) -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    (adds,) = interception.interceptors
    exchange = interception.produce(version, validation)
    step = exchange.request(produce_request(version, {"orders": {0: batch("bad", "good"), 1: batch("good")}}, acks=0))
    assert isinstance(step, Last)
    assert step.frame == produce_request(version, {"orders": {1: with_headers("good")}}, acks=0)
    assert step.cause == "rejected_without_acks"
    assert [(metadata.partition, error is not None) for metadata, error in adds.acknowledged] == [
        (0, True), (0, True), (1, False),
    ]  # fmt: skip
    assert "orders takes no bad" in str(adds.acknowledged[0][1])


def test_with_acks_0_and_no_records_left_nothing_is_forwarded_and_all_are_acknowledged() -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    step = interception.produce(validating=validation).request(
        produce_request(9, {"orders": {0: batch("bad")}}, acks=0)
    )
    assert isinstance(step, Last)
    assert step.frame == b""
    assert [error is not None for _, error in interception.interceptors[0].acknowledged] == [True]


@pytest.mark.parametrize("when", ["before", "sent"])
def test_a_lost_connection_is_acknowledged_once_for_every_record(when: str) -> None:
    interception = Intercepting("Adds", "Listens")
    exchange = interception.produce()
    if when == "before":
        exchange.turns = True
    step = exchange.request(produce_request(9, {"orders": {0: batch("a", "b"), 1: batch("c")}}))
    assert (step is TURN) is (when == "before")
    for why in ("the broker has closed", "again"):
        exchange.lost(why)
    for one in interception.interceptors:
        assert errors(one.acknowledged) == [("the broker has closed", -1, False)] * 3


def test_after_the_response_nothing_more_is_acknowledged() -> None:
    interception = Intercepting("Adds")
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": {0: batch("a")}}))
    exchange.response(produce_response(9, {"orders": {0: 1}}))
    exchange.lost("the broker has closed")
    assert offsets(interception.interceptors[0].acknowledged) == [1]


def test_a_partition_missing_from_the_response_is_acknowledged_too() -> None:
    interception = Intercepting("Adds")
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": {0: batch("a"), 1: batch("b")}}))
    exchange.response(produce_response(9, {"orders": {1: 5}}))
    acknowledged = {metadata.partition: error for metadata, error in interception.interceptors[0].acknowledged}
    assert acknowledged[1] is None
    assert str(acknowledged[0]) == "the response does not name the partition"


@pytest.mark.parametrize("validated", [False, True])
def test_an_unreadable_response_is_acknowledged_as_an_error(validated: bool) -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    exchange = interception.produce(validating=validation if validated else None)
    exchange.request(produce_request(9, {"orders": {0: batch("a"), 1: batch("bad")}}))
    with pytest.raises(CodecError):
        exchange.response(produce_response(9, {"orders": {0: 1}})[:-3])
    acknowledged = interception.interceptors[0].acknowledged
    assert len(acknowledged) == 2
    exchange.lost("unreadable")
    assert sorted(metadata.partition for metadata, _ in acknowledged) == [0, 1]
    assert all(isinstance(error, SendError) for _, error in acknowledged)


@FEWER
@given(st.lists(st.tuples(st.sampled_from(["send", "answer", "lost"]), st.integers(0, 9)), max_size=30), st.data())
def test_each_record_is_acknowledged_once_in_any_order_of_requests_responses_and_endings(
    events: list[Event], data: st.DataObject
) -> None:
    interception, validation = Intercepting("Adds", "Listens"), Validating(*GUARDED, names=("orders",))
    waiting: list[tuple[Driven, list[int], int]] = []
    records, sent = 0, 0
    for what, number in events:
        if what == "send":
            partitions = sorted(data.draw(st.sets(st.integers(0, 3), min_size=1)))
            kinds = [data.draw(st.sampled_from([("a",), ("a", "keep"), ("bad", "x"), ("fails",)])) for _ in partitions]
            acks = data.draw(st.sampled_from([0, 1, -1]))
            version = data.draw(st.sampled_from([3, 9, 13]))
            exchange = interception.produce(version, validation if number % 2 else None)
            topics = {"orders": dict(zip(partitions, (batch(*kind) for kind in kinds), strict=True))}
            step = exchange.request(produce_request(version, topics, acks))
            records += sum(map(len, kinds))
            sent += 1
            if isinstance(step, bytes) and exchange.wants_response:
                left = [at for at, kind in zip(partitions, kinds, strict=True) if number % 2 == 0 or kind[0] != "bad"]
                waiting.append((exchange, left, version))
        elif waiting and what == "answer":
            exchange, left, version = waiting.pop(0)
            exchange.response(produce_response(version, {"orders": dict.fromkeys(left[: number + 1], 10 * number)}))
        elif what == "lost":
            for exchange, *_ in waiting:
                exchange.lost("the connection has ended")
            waiting.clear()
    for exchange, *_ in waiting:
        exchange.lost("the end")
    assert [len(one.acknowledged) for one in interception.interceptors] == [records, records]


async def test_a_connection_that_is_lost_while_a_name_is_asked_for_has_nothing_to_tell_yet() -> None:
    interception = Intercepting("Adds", topics=("*",))
    exchange = interception.produce(FIRST_WITH_IDS)
    assert isinstance(exchange.request(produce_request(FIRST_WITH_IDS, {"who": {0: batch("a")}})), Need)
    exchange.lost("the client has closed")
    assert interception.interceptors[0].acknowledged == []


@pytest.mark.parametrize("ending", ["response", "acks", "own response", "lost"])
def test_many_acknowledgements_are_reported_in_a_thread(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_INLINE_ACKNOWLEDGEMENTS", 3)
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    (adds,) = interception.interceptors
    exchange = interception.produce(validating=validation)
    records = batch(*["bad"] * 4 if ending == "own response" else "abcd")
    step: Any = exchange.request(produce_request(9, {"orders": {0: records}}, acks=ending != "acks"))
    if ending == "response":
        step = exchange.response(produce_response(9, {"orders": {0: 5}}))
    if ending == "lost":
        step = exchange.exchange.lost("closed")
    assert isinstance(step, Work)
    assert step.must_run
    assert adds.acknowledged == []
    step.run()
    assert [error is None for _, error in adds.acknowledged] == [ending in ("response", "acks")] * 4


async def test_what_a_thread_reports_is_not_lost_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_INLINE_ACKNOWLEDGEMENTS", 3)
    interception, gate = Intercepting("Adds"), threading.Event()
    (adds,) = interception.interceptors
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": {0: batch(*"abcd")}}))
    adds.threads.clear()
    need = exchange.response(produce_response(9, {"orders": {0: 5}}))
    assert isinstance(need, Need)
    performer = Performer(LoopBudget(), Threads(1))
    for connection in (1, 2):
        performer.perform(Work(lambda: gate.wait(5), is_light=True), connection)  # nothing is reported before these
    future = performer.perform(need)
    await asyncio.sleep(0)
    future.cancel()
    assert exchange.exchange.lost("closed") is None
    gate.set()
    await until(lambda: len(adds.acknowledged) == 4)
    assert threading.get_ident() not in adds.threads
    assert [error for _, error in adds.acknowledged] == [None] * 4


async def test_few_acknowledgements_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_INLINE_ACKNOWLEDGEMENTS", 3)
    interception = Intercepting("Adds")
    (adds,) = interception.interceptors
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": {0: batch(*"abc")}}))
    frame = produce_response(9, {"orders": {0: 5}})
    assert exchange.response(frame) is frame
    assert offsets(adds.acknowledged) == [5, 6, 7]


def test_others_have_a_turn_before_some_acknowledgements_and_lost_ones_are_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_stage, "ACKNOWLEDGEMENTS_PER_TURN", 3)
    for is_lost in (False, True):
        interception = Intercepting("Adds")
        (adds,) = interception.interceptors
        exchange = interception.produce()
        exchange.request(produce_request(9, {"orders": {0: batch(*"abcd")}}))
        exchange.turns = True
        frame = produce_response(9, {"orders": {0: 5}})
        assert exchange.response(frame) is TURN
        assert adds.acknowledged == []
        if is_lost:
            exchange.lost("closed")
            assert [error is None for _, error in adds.acknowledged] == [False] * 4
        else:
            assert exchange.answer() is frame
            assert offsets(adds.acknowledged) == [5, 6, 7, 8]


def test_many_partitions_without_records_are_reported_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_INLINE_ACKNOWLEDGEMENTS", 3)
    interception = Intercepting("Adds")
    empty = build_batch([])
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": dict.fromkeys(range(4), empty)}))
    assert isinstance(exchange.response(produce_response(9, {"orders": dict.fromkeys(range(4), 5)})), Work)


def test_a_connection_that_is_lost_while_policies_wait_is_reported() -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    exchange = interception.produce(validating=validation)
    assert isinstance(exchange.request(produce_request(9, {"orders": {0: batch("ask a", "b")}})), PolicyFetch)
    exchange.lost("the client has closed")
    assert errors(interception.interceptors[0].acknowledged) == [("the client has closed", -1, False)] * 2


def test_the_moment_that_is_reported_is_when_the_request_goes_to_the_broker() -> None:
    interception = Intercepting("Adds")
    exchange = interception.produce()
    exchange.turns = True
    assert exchange.request(produce_request(9, {"orders": {0: batch("a")}})) is TURN
    interception.now_ms += 500
    exchange.answer()
    (sent,) = exchange.exchange._runs[0].waiting.values()  # type: ignore[attr-defined]
    assert sent.sent_at == NOW + 500
