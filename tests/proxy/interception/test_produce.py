"""The way of a Produce request: what the broker gets, what interceptors are told. kio is the judge."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.in_process import until
from support.interception import NOW, Intercepting, headers_in, only
from support.produce_requests import (
    CORRELATION_ID,
    FIRST_WITH_IDS,
    GUARDED,
    INVALID_RECORD,
    VERSIONS,
    Judging,
    asked,
    batch,
    said,
    stored,
    topic_id,
)

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.records import Batch, Header, NewRecord, build_batch
from kafka_sidecar.interceptors.contract import SendError
from kafka_sidecar.proxy.interception import produce as produce_module
from kafka_sidecar.proxy.interception.produce import FIRST_WITH_IDS as WITH_IDS
from kafka_sidecar.proxy.interception.produce import VIEWED_FROM, InterceptedProduce
from kafka_sidecar.proxy.relay.exchange import Answer, Exchange, Hold, Last, Step
from kafka_sidecar.proxy.runtime.threads import INFLATED_AT_ONCE, OFFLOADED, submit

FEWER = settings(max_examples=settings().max_examples // 3)
each_version = pytest.mark.parametrize("version", VERSIONS)
ADDED = ("added", b"yes")


def exchange(
    around: Intercepting, version: int = 9, judge: Judging | None = None, inner: Exchange | None = None
) -> InterceptedProduce:
    inner = judge.exchange(version) if judge is not None else inner
    return InterceptedProduce(around.catalog.producers, around.around, around.client, version, inner)


def with_headers(*values: str, **header: Any) -> bytes:
    """What `Adds` makes of a batch of these."""
    new = [NewRecord(v.encode(), headers=() if v.startswith("keep") else (Header(*ADDED),)) for v in values]
    return build_batch(new, **header)


def offsets(told: list[Any]) -> list[int]:
    return [metadata.offset for metadata, _ in told]


def errors(told: list[Any]) -> list[tuple[str, int, bool] | None]:
    return [error and (str(error), error.code, error.retriable) for _, error in told]


@each_version
def test_the_broker_gets_what_the_interceptors_have_made_of_the_records_and_all_else_as_it_was(version: int) -> None:
    around = Intercepting("Adds")
    out = exchange(around, version).request(
        asked(version, {"free": {0: batch("a")}, "orders": {3: batch("a", "keep b"), 0: batch("keep c")}})
    )
    want = {"free": {0: batch("a")}, "orders": {3: with_headers("a", "keep b"), 0: batch("keep c")}}
    assert out == asked(version, want)
    assert around.observed.batches == {("Produce", "changed"): 1, ("Produce", "unchanged"): 1}


@each_version
def test_a_request_that_no_interceptor_changes_is_the_very_same_bytes(version: int) -> None:
    around = Intercepting("Adds")
    frame = asked(version, {"orders": {0: batch("keep")}, "free": {0: batch("a")}})
    hand = exchange(around, version)
    assert hand.request(frame) is frame
    assert hand.wants_response


def test_without_a_wanted_topic_no_response_is_wanted() -> None:
    frame = asked(9, {"payments": {0: batch("a")}, "free": {0: batch("a")}})
    hand = exchange(Intercepting("Adds"))
    assert hand.request(frame) is frame
    assert not hand.wants_response


@each_version
def test_each_record_is_acknowledged_with_all_that_is_known_of_it(version: int) -> None:
    around = Intercepting("Adds")
    (adds,) = around.interceptors
    hand = exchange(around, version)
    records = build_batch([NewRecord(b"four", b"key", timestamp_delta=7), NewRecord(None, None)], base_timestamp=NOW)
    hand.request(asked(version, {"orders": {5: records}, "free": {0: batch("x")}}))
    answer = stored(version, {"orders": {5: 40}, "free": {0: 7}})
    assert hand.response(answer) is answer
    first, second = [metadata for metadata, _ in adds.told]
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("orders", 5, 40, NOW + 7)
    assert (first.serialized_key_size, first.serialized_value_size) == (3, 4)
    assert (second.offset, second.timestamp) == (41, NOW)
    assert (second.serialized_key_size, second.serialized_value_size) == (-1, -1)
    assert errors(adds.told) == [None, None]
    assert adds.headers == [[ADDED], [ADDED]]
    context = first.context
    assert (context.client_id, context.session, context.api_version) == ("app", 7, version)
    assert context.transactional_id == "tx"


def answer(version: int, **partition: Any) -> bytes:
    data = [{"name": "orders", "topic_id": topic_id("orders"), "partition_responses": [{"index": 0, **partition}]}]
    return oracle.response_frame(oracle.response(ApiKey.PRODUCE, version, responses=data), CORRELATION_ID)


@each_version
def test_where_the_broker_sets_the_time_that_is_the_time_of_all_records(version: int) -> None:
    around = Intercepting("Adds", "Listens")
    hand = exchange(around, version)
    hand.request(asked(version, {"orders": {0: batch("a", "b")}}))
    frame = oracle.response(
        ApiKey.PRODUCE, version,
        responses=[{"name": "orders", "topic_id": topic_id("orders"), "partition_responses": [{"base_offset": 5}]}],
    )  # fmt: skip
    at = oracle.response_frame(frame, 7)
    timed = bytearray(at)
    place = at.rindex((5).to_bytes(8, "big")) + 8
    timed[place : place + 8] = (NOW + 9).to_bytes(8, "big")
    hand.response(bytes(timed))
    for one in around.interceptors:
        assert [metadata.timestamp for metadata, _ in one.told] == [NOW + 9] * 2
        assert offsets(one.told) == [5, 6]


@each_version
@pytest.mark.parametrize(("code", "retriable"), [(3, True), (10, False), (87, False), (-1, False), (19, True)])
def test_an_error_of_the_broker_is_told_with_its_code_and_nothing_is_known_of_the_record(
    version: int, code: int, retriable: bool
) -> None:
    around = Intercepting("Adds")
    (adds,) = around.interceptors
    hand = exchange(around, version)
    hand.request(asked(version, {"orders": {0: batch("a", "b")}}))
    given = {"error_message": "no room"} if version >= 8 else {}
    frame = answer(version, error_code=code, base_offset=-1, **given)
    assert hand.response(frame) is frame
    text = "no room" if version >= 8 else f"the broker answers with error code {code}"
    assert errors(adds.told) == [(text, code, retriable)] * 2
    for metadata, _ in adds.told:
        assert metadata[:6] == ("orders", 0, -1, -1, -1, -1)


@pytest.mark.parametrize("base", [-1, 17])
def test_what_was_written_before_is_a_success(base: int) -> None:
    around = Intercepting("Adds")
    hand = exchange(around)
    hand.request(asked(9, {"orders": {0: batch("a", "b")}}))
    hand.response(answer(9, error_code=46, base_offset=base))
    (adds,) = around.interceptors
    assert errors(adds.told) == [None, None]
    assert offsets(adds.told) == ([17, 18] if base >= 0 else [-1, -1])


@each_version
def test_with_acks_0_it_is_told_at_once_and_no_offset_is_known(version: int) -> None:
    around = Intercepting("Adds", "Listens")
    hand = exchange(around, version)
    out = hand.request(asked(version, {"orders": {0: batch("a", "b")}}, acks=0))
    assert out == asked(version, {"orders": {0: with_headers("a", "b")}}, acks=0)
    assert not hand.wants_response
    adds, listens = around.interceptors
    assert offsets(adds.told) == offsets(listens.told) == [-1, -1]
    assert errors(adds.told) == [None, None]
    assert [metadata.serialized_value_size for metadata, _ in adds.told] == [1, 1]
    hand.lost("the connection has ended")
    assert len(adds.told) == 2


def test_policies_judge_what_the_client_sent_and_interceptors_see_what_they_let_pass() -> None:
    around, judge = Intercepting("Adds"), Judging(*GUARDED, names=("orders",))
    (adds,) = around.interceptors
    hand = exchange(around, judge=judge)
    out = hand.request(asked(9, {"orders": {0: batch("good"), 1: batch("bad", "good"), 2: batch("keep")}}))
    assert out == asked(9, {"orders": {0: with_headers("good"), 2: batch("keep")}})
    assert adds.values == [b"good", b"keep"]
    got = hand.response(stored(9, {"orders": {0: 10, 2: 20}}))
    assert isinstance(got, bytes)
    assert said(9, got) == [("orders", 0, 0, 10), ("orders", 1, INVALID_RECORD, -1), ("orders", 2, 0, 20)]
    by_partition = {at: [one for one in adds.told if one[0].partition == at] for at in (0, 1, 2)}
    assert offsets(by_partition[0]) == [10]
    bad, beside_it = errors(by_partition[1])
    assert bad == ("orders takes no bad", INVALID_RECORD, False)
    assert beside_it == ("it was part of a batch with records that were refused", -1, False)
    assert offsets(by_partition[2]) == [20]
    assert len(adds.told) == 4


@each_version
def test_what_is_refused_as_a_whole_is_told_when_it_is_answered_here(version: int) -> None:
    around, judge = Intercepting("Adds"), Judging(*GUARDED, names=("orders",))
    (adds,) = around.interceptors
    hand = exchange(around, version, judge)
    step = hand.request(asked(version, {"orders": {4: batch("bad", "good")}}))
    assert isinstance(step, Answer)
    assert said(version, step.frame) == [("orders", 4, INVALID_RECORD, -1)]
    beside_it = -1 if version >= 8 else INVALID_RECORD  # before, answers do not say which is bad
    assert [error and error[1] for error in errors(adds.told)] == [INVALID_RECORD, beside_it]
    assert adds.values == []
    hand.lost("later")
    assert len(adds.told) == 2


@each_version
def test_what_is_refused_with_acks_0_is_told_and_the_rest_goes_on_as_the_last_request(version: int) -> None:
    around, judge = Intercepting("Adds"), Judging(*GUARDED, names=("orders",))
    (adds,) = around.interceptors
    hand = exchange(around, version, judge)
    step = hand.request(asked(version, {"orders": {0: batch("bad", "good"), 1: batch("good")}}, acks=0))
    assert isinstance(step, Last)
    assert step.frame == asked(version, {"orders": {1: with_headers("good")}}, acks=0)
    assert step.cause == "refused_without_acks"
    assert [(metadata.partition, error is not None) for metadata, error in adds.told] == [
        (0, True), (0, True), (1, False),
    ]  # fmt: skip
    assert "orders takes no bad" in str(adds.told[0][1])


def test_with_acks_0_and_nothing_left_no_byte_goes_on_and_all_is_told() -> None:
    around, judge = Intercepting("Adds"), Judging(*GUARDED, names=("orders",))
    step = exchange(around, judge=judge).request(asked(9, {"orders": {0: batch("bad")}}, acks=0))
    assert isinstance(step, Last)
    assert step.frame == b""
    assert [error is not None for _, error in around.interceptors[0].told] == [True]


@pytest.mark.parametrize("when", ["before", "sent"])
def test_a_connection_that_is_lost_is_told_once_for_every_record(when: str) -> None:
    around = Intercepting("Adds", "Listens")
    hand = exchange(around)
    if when == "before":
        around.around.pace.spent_s = 1.0
    step = hand.request(asked(9, {"orders": {0: batch("a", "b"), 1: batch("c")}}))
    assert isinstance(step, Hold) is (when == "before")
    for why in ("the broker has closed", "again"):
        hand.lost(why)
    for one in around.interceptors:
        assert errors(one.told) == [("the broker has closed", -1, False)] * 3


def test_after_the_answer_nothing_more_is_told() -> None:
    around = Intercepting("Adds")
    hand = exchange(around)
    hand.request(asked(9, {"orders": {0: batch("a")}}))
    hand.response(stored(9, {"orders": {0: 1}}))
    hand.lost("the broker has closed")
    assert offsets(around.interceptors[0].told) == [1]


def test_a_partition_that_the_answer_does_not_name_is_told_too() -> None:
    around = Intercepting("Adds")
    hand = exchange(around)
    hand.request(asked(9, {"orders": {0: batch("a"), 1: batch("b")}}))
    hand.response(stored(9, {"orders": {1: 5}}))
    told = {metadata.partition: error for metadata, error in around.interceptors[0].told}
    assert told[1] is None
    assert str(told[0]) == "the answer does not name the partition"


@pytest.mark.parametrize("judged", [False, True])
def test_an_answer_that_cannot_be_read_is_told_as_an_error(judged: bool) -> None:
    around, judge = Intercepting("Adds"), Judging(*GUARDED, names=("orders",))
    hand = exchange(around, judge=judge if judged else None)
    hand.request(asked(9, {"orders": {0: batch("a"), 1: batch("bad")}}))
    with pytest.raises(CodecError):
        hand.response(stored(9, {"orders": {0: 1}})[:-3])
    told = around.interceptors[0].told
    assert len(told) == 2
    hand.lost("unreadable")
    assert sorted(metadata.partition for metadata, _ in told) == [0, 1]
    assert all(isinstance(error, SendError) for _, error in told)


# Records are told of exactly once


Event = tuple[str, int]


@FEWER
@given(st.lists(st.tuples(st.sampled_from(["send", "answer", "lost"]), st.integers(0, 9)), max_size=30), st.data())
def test_however_requests_answers_and_endings_follow_each_other_each_record_is_told_once(
    events: list[Event], data: st.DataObject
) -> None:
    around, judge = Intercepting("Adds", "Listens"), Judging(*GUARDED, names=("orders",))
    waiting: list[tuple[InterceptedProduce, list[int], int]] = []
    records, sent = 0, 0
    for what, number in events:
        if what == "send":
            partitions = sorted(data.draw(st.sets(st.integers(0, 3), min_size=1)))
            kinds = [data.draw(st.sampled_from([("a",), ("a", "keep"), ("bad", "x"), ("fails",)])) for _ in partitions]
            acks = data.draw(st.sampled_from([0, 1, -1]))
            version = data.draw(st.sampled_from([3, 9, 13]))
            hand = exchange(around, version, judge if number % 2 else None)
            topics = {"orders": dict(zip(partitions, (batch(*kind) for kind in kinds), strict=True))}
            step = hand.request(asked(version, topics, acks))
            while isinstance(step, Hold):  # a slow machine: others have their turn
                around.around.pace.spent_s = judge.around.pace.spent_s = 0.0
                step = step.then()
            records += sum(map(len, kinds))
            sent += 1
            if isinstance(step, bytes) and hand.wants_response:
                left = [at for at, kind in zip(partitions, kinds, strict=True) if number % 2 == 0 or kind[0] != "bad"]
                waiting.append((hand, left, version))
        elif waiting and what == "answer":
            hand, left, version = waiting.pop(0)
            hand.response(stored(version, {"orders": dict.fromkeys(left[: number + 1], 10 * number)}))
        elif what == "lost":
            for hand, *_ in waiting:
                hand.lost("the connection has ended")
            waiting.clear()
    for hand, *_ in waiting:
        hand.lost("the end")
    assert [len(one.told) for one in around.interceptors] == [records, records]


# Topics by their ids


async def test_an_id_that_is_not_known_is_asked_for_once() -> None:
    around = Intercepting("Adds", topics=("orders*",))
    around.hidden = {"orders-2"}
    hand = exchange(around, FIRST_WITH_IDS)
    step = await around.sent(hand, asked(FIRST_WITH_IDS, {"orders-2": {0: batch("a")}}))
    assert step == asked(FIRST_WITH_IDS, {"orders-2": {0: with_headers("a")}})
    assert around.asked_for == [topic_id("orders-2")]
    hand.response(stored(FIRST_WITH_IDS, {"orders-2": {0: 5}}))
    assert [(one.topic, one.offset) for one, _ in around.interceptors[0].told] == [("orders-2", 5)]


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_what_nobody_can_name_goes_on_as_it_came_and_the_broker_says_what_it_is(cluster_answers: bool) -> None:
    around = Intercepting("Adds", topics=("*",))
    around.cluster_answers = cluster_answers
    frame = asked(FIRST_WITH_IDS, {"who": {0: batch("a")}})
    hand = exchange(around, FIRST_WITH_IDS)
    assert await around.sent(hand, frame) is frame
    assert around.waits == 1
    assert not hand.wants_response


async def test_a_connection_that_is_lost_while_a_name_is_asked_for_has_nothing_to_tell_yet() -> None:
    around = Intercepting("Adds", topics=("*",))
    hand = exchange(around, FIRST_WITH_IDS)
    assert isinstance(hand.request(asked(FIRST_WITH_IDS, {"who": {0: batch("a")}})), Hold)
    hand.lost("the client has closed")
    assert around.interceptors[0].told == []


def test_ids_begin_in_the_version_that_kafka_says() -> None:
    assert WITH_IDS == FIRST_WITH_IDS


# What is not touched


def broken_crc(data: bytes) -> bytes:
    return data[:17] + bytes(4) + data[21:]


def resized(data: bytes, count: int) -> bytes:
    """Another count of records, and a checksum that is right."""
    new = data[:57] + count.to_bytes(4, "big", signed=True) + data[61:]
    return new[:17] + crc32c(new[21:]).to_bytes(4, "big") + new[21:]


OLD_MAGIC = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + bytes(18)
ODD: dict[str, bytes | None] = {
    "none": None,
    "empty": b"",
    "wrong checksum": broken_crc(batch("a")),
    "control": build_batch([NewRecord(bytes(6), bytes((0, 0, 0, 1)))], attributes=0x30),
    "more records announced": resized(batch("a"), 2),
    "fewer records announced": resized(batch("a", "b"), 1),
    "no records announced": resized(batch("a"), 0),
    "less than no records announced": resized(batch("a"), -5),
    "very many records announced": resized(batch("a"), 0x7FFFFFFF),
    "old format": batch("a")[:16] + b"\1" + batch("a")[17:],
    "two batches": batch("a") + batch("b"),
    "cut off": batch("a")[:-1],
    "noise": bytes(range(200)),
    "unknown codec": batch("a")[:22] + b"\x07" + batch("a")[23:],
    "not compressed": batch("a")[:22] + b"\x04" + batch("a")[23:],
    "producer without sequence": batch("a", producer_id=5),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
async def test_what_brokers_refuse_goes_on_byte_for_byte_so_that_they_refuse_it(what: str) -> None:
    around = Intercepting("Adds", "Listens")
    hand = exchange(around)
    frame = asked(9, {"orders": {0: ODD[what], 1: batch("a")}})
    assert await around.sent(hand, frame) == asked(9, {"orders": {0: ODD[what], 1: with_headers("a")}})
    hand.response(answer(9, error_code=87, base_offset=-1))
    for one in around.interceptors:
        assert len(one.told) < 100  # a header may say anything
        assert all(error is not None for _, error in one.told)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_header_that_announces_two_thousand_million_records_costs_nothing(acks: int) -> None:
    around = Intercepting("Listens")
    hand = exchange(around)
    hand.request(asked(9, {"orders": {0: ODD["very many records announced"]}}, acks))
    hand.lost("closed")
    assert len(around.interceptors[0].told) < 100


def test_a_batch_whose_header_is_all_that_was_read_is_told_of_by_its_count_however_small_it_is() -> None:
    around = Intercepting("Listens")
    for ending in ("acks", "lost", "error"):
        hand = exchange(around)
        records = batch(*["same"] * 5000, codec=4)
        assert len(records) < 5000
        hand.request(asked(9, {"orders": {0: records}}, acks=ending != "acks"))
        if ending == "error":
            hand.response(answer(9, error_code=87, base_offset=-1))
        hand.lost("closed")
        assert len(around.interceptors[0].told) == 5000, ending
        around.interceptors[0].told.clear()


def test_a_batch_that_holds_more_than_the_limit_is_left_alone() -> None:
    around = Intercepting("Adds", limit=10_000)
    frame = asked(9, {"orders": {0: batch("x" * 20_000, codec=1)}})
    hand = exchange(around)
    assert hand.request(frame) is frame
    assert around.observed.batches == {("Produce", "too_large"): 1}
    hand.response(stored(9, {"orders": {0: 3}}))
    assert offsets(around.interceptors[0].told) == [3]


@pytest.mark.parametrize(("limit", "fits"), [(5000, False), (7000, True)])
def test_a_batch_that_would_become_too_large_is_written_as_it_was_sent(limit: int, fits: bool) -> None:
    around = Intercepting("Adds", message_max_bytes=limit)
    frame = asked(9, {"orders": {0: batch("larger")}})
    hand = exchange(around)
    out = hand.request(frame)
    assert (out is frame) is not fits
    assert around.observed.batches["Produce", "would_be_too_large"] == (not fits)
    hand.response(stored(9, {"orders": {0: 3}}))
    sizes = [metadata.serialized_value_size for metadata, _ in around.interceptors[0].told]
    assert sizes == [6000 if fits else 6]


@pytest.mark.parametrize(("word", "left_alone"), [("smaller", False), ("grows", True)])
def test_a_batch_that_is_too_large_already_may_be_changed_where_it_does_not_grow(word: str, left_alone: bool) -> None:
    around = Intercepting("Adds", message_max_bytes=10)
    frame = asked(9, {"orders": {0: batch(f"{word} {'x' * 500}")}})
    assert (exchange(around).request(frame) is frame) is left_alone
    assert around.observed.batches["Produce", "would_be_too_large"] == left_alone


def test_unknown_tagged_fields_of_a_request_survive_a_change() -> None:
    plain = asked(9, {"orders": {0: batch("a")}, "free": {0: batch("b")}})
    at = 4 + 8 + 2 + 3 + 1
    request, end = decode(ProduceRequest, plain, 9, at)
    assert end == len(plain)

    def tagged(request: ProduceRequest, records: bytes) -> bytes:
        orders, free = request.topic_data
        (one,) = orders.partition_data
        one = replace_fields(one, records=records, unknown_tags=((5, b"five"),))
        orders = replace_fields(orders, partition_data=(one,), unknown_tags=((6, b"six"),))
        body = encode(replace_fields(request, topic_data=(orders, free), unknown_tags=((700, b"seven"),)), 9)
        return oracle.framed(plain[4:at] + body)

    out = exchange(Intercepting("Adds")).request(tagged(request, batch("a")))
    assert out == tagged(request, with_headers("a"))
    assert b"seven" in out


@pytest.mark.parametrize("codec", range(5))
def test_of_a_batch_only_the_records_and_what_follows_from_them_are_changed(codec: int) -> None:
    records = build_batch(
        [NewRecord(b"a", b"k", timestamp_delta=-3), NewRecord(None, timestamp_delta=9, attributes=1)], codec=codec,
        attributes=0x10, base_offset=0, leader_epoch=4, base_timestamp=NOW, max_timestamp=NOW + 100, producer_id=77,
        producer_epoch=3, base_sequence=1000,
    )  # fmt: skip
    around = Intercepting("Adds")
    out = exchange(around).request(asked(9, {"orders": {0: records}}))
    assert isinstance(out, bytes)
    new, old = only(requested(9, out)["orders"][0]), only(records)
    assert isinstance(new, Batch)
    resealed = {"length": new.header.length, "crc": new.header.crc}
    assert new.header.fields() == old.header.fields() | resealed
    assert new.crc_is_right()
    for before, after in zip(old.records(), new.records(), strict=True):
        assert (after.key, after.value, after.attributes) == (before.key, before.value, before.attributes)
        assert (after.timestamp_delta, after.offset_delta) == (before.timestamp_delta, before.offset_delta)
        assert [header.key for header in after.headers] == ["added"]


def requested(version: int, frame: bytes) -> dict[str, dict[int, Any]]:
    """What a request of version 9 holds."""
    request, _ = decode(ProduceRequest, frame, version, 4 + 8 + 2 + 3 + 1)
    topics: tuple[TopicProduceData, ...] = request.topic_data
    return {topic.name: {one.index: one.records for one in topic.partition_data} for topic in topics}


def test_an_interceptor_that_fails_is_passed_over_and_the_request_goes_on() -> None:
    around = Intercepting("Adds", "Adds")
    _, second = around.interceptors
    second.header = b"second"
    out = exchange(around).request(asked(9, {"orders": {0: batch("fails", "a")}}))
    assert isinstance(out, bytes)
    assert headers_in(requested(9, out)["orders"][0]) == [[], [ADDED, ("added", b"second")]]
    assert around.catalog.guards[0].failures["on_send"] == 1


def test_each_topic_has_its_own_interceptors() -> None:
    around = Intercepting("Adds", topics=("orders", "payments"))
    hand = exchange(around)
    hand.request(
        asked(9, {"payments": {0: batch("a")}, "free": {0: batch("b")}, "orders": {0: batch("c"), 2: batch()}})
    )
    hand.response(stored(9, {"payments": {0: 1}, "free": {0: 2}, "orders": {0: 3, 2: 4}}))
    told = [(metadata.topic, metadata.partition, metadata.offset) for metadata, _ in around.interceptors[0].told]
    assert sorted(told) == [("orders", 0, 3), ("payments", 0, 1)]


# Where the work is done


@pytest.mark.parametrize(("codec", "large"), list(OFFLOADED.items()))
async def test_large_batches_are_intercepted_in_a_thread_and_small_ones_at_once(codec: int, large: int) -> None:
    for size, elsewhere in ((large // 2, False), (large * 3 // 2, True)):
        around = Intercepting("Adds", limit=100 << 20, message_max_bytes=100 << 20)
        text = b64encode(Random(1).randbytes(size)).decode()[:size]
        hand = exchange(around)
        out = await around.sent(hand, asked(9, {"orders": {0: batch(text, codec=codec)}}))
        assert isinstance(out, bytes)
        assert headers_in(requested(9, out)["orders"][0]) == [[ADDED]]
        assert around.waits == elsewhere
        assert (threading.get_ident() not in around.interceptors[0].threads) is elsewhere


@pytest.mark.parametrize(("records", "waits"), [(1000, 0), (1001, 1)])
async def test_many_records_are_intercepted_in_a_thread(records: int, waits: int) -> None:
    around = Intercepting("Adds")
    await around.sent(exchange(around), asked(9, {"orders": {0: batch(*["a"] * records)}}))
    assert around.waits == waits
    assert len(around.interceptors[0].values) == records


async def test_a_small_batch_that_holds_much_is_begun_again_in_a_thread_and_seen_once() -> None:
    around = Intercepting("Adds", limit=100 << 20)
    text = "x" * (INFLATED_AT_ONCE + 1)
    await around.sent(exchange(around), asked(9, {"orders": {0: batch(text, codec=4), 1: batch("b")}}))
    assert around.waits == 1
    assert len(around.interceptors[0].values) == 2


async def test_after_some_milliseconds_of_intercepting_all_others_have_their_turn() -> None:
    around = Intercepting("Adds")
    around.around.pace.spent_s = 1.0
    step = exchange(around).request(asked(9, {"orders": {0: batch("a")}}))
    assert isinstance(step, Hold)
    out = await around.over(step)
    assert out == asked(9, {"orders": {0: with_headers("a")}})
    assert 0 < around.around.pace.spent_s < 1


async def test_a_large_request_is_read_as_views_and_written_whole() -> None:
    around = Intercepting("Adds", limit=10 << 20, message_max_bytes=10 << 20)
    large = "x" * VIEWED_FROM
    frame = asked(9, {"orders": {0: batch(large), 1: batch("keep")}, "free": {0: batch("f")}})
    out = await around.sent(exchange(around), frame)
    assert out == asked(9, {"orders": {0: with_headers(large), 1: batch("keep")}, "free": {0: batch("f")}})


@pytest.mark.parametrize("ending", ["answer", "acks", "own answer", "lost", "cancelled", "cancelled at once"])
async def test_many_acknowledgements_are_told_in_a_thread_whatever_ends_the_wait(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_module, "TOLD_AT_ONCE", 3)
    around, judge = Intercepting("Adds"), Judging(*GUARDED, names=("orders",))
    (adds,) = around.interceptors
    hand = exchange(around, judge=judge)
    records = batch(*["bad"] * 4 if ending == "own answer" else "abcd")
    step = hand.request(asked(9, {"orders": {0: records}}, acks=ending != "acks"))
    adds.threads.clear()
    if ending == "lost":
        hand.lost("closed")
    elif ending == "cancelled at once":  # before anybody waits
        assert isinstance(hand.response(stored(9, {"orders": {0: 5}})), Hold)
        hand.lost("closed")
    elif ending == "cancelled":
        step = hand.response(stored(9, {"orders": {0: 5}}))
        assert isinstance(step, Hold)
        gate = threading.Event()
        for _ in range(2):
            submit(lambda: gate.wait(5))  # nothing is told before these are done
        task = asyncio.ensure_future(step.wait())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        hand.lost("closed")
        gate.set()
    elif ending == "answer":
        step = hand.response(stored(9, {"orders": {0: 5}}))
        assert isinstance(step, Hold)
        assert await around.over(step) == stored(9, {"orders": {0: 5}})
    else:
        assert isinstance(step, Hold)
        assert isinstance(await around.over(step), Answer if ending == "own answer" else bytes)
    await until(lambda: len(adds.told) == 4)
    await asyncio.sleep(0.01)
    assert len(adds.told) == 4
    assert threading.get_ident() not in adds.threads
    well = ending in ("answer", "acks", "cancelled", "cancelled at once")  # what was answered was not lost
    assert [error is None for _, error in adds.told] == [well] * 4


async def test_few_acknowledgements_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_module, "TOLD_AT_ONCE", 3)
    around = Intercepting("Adds")
    (adds,) = around.interceptors
    hand = exchange(around)
    hand.request(asked(9, {"orders": {0: batch(*"abc")}}))
    frame = stored(9, {"orders": {0: 5}})
    assert hand.response(frame) is frame
    assert offsets(adds.told) == [5, 6, 7]


class Waits(Exchange):
    """A validation that waits, and then does what the test says."""

    wants_response = False

    def __init__(self, then: Any) -> None:
        self.then = then
        self.heard: list[str] = []

    def request(self, frame: bytes) -> Step:
        async def wait() -> None:
            return

        return Hold(wait, lambda: self.then(frame))

    def response(self, frame: bytes) -> bytes:
        return frame

    def lost(self, why: str) -> None:
        self.heard.append(why)


async def test_interceptors_wait_for_policies_that_wait() -> None:
    around = Intercepting("Adds")
    hand = exchange(around, inner=Waits(lambda frame: frame))
    step = hand.request(asked(9, {"orders": {0: batch("a")}}))
    assert around.interceptors[0].values == []
    assert await around.over(step) == asked(9, {"orders": {0: with_headers("a")}})


async def test_a_connection_that_is_lost_while_policies_wait_is_told_of() -> None:
    around = Intercepting("Adds")
    inner = Waits(lambda frame: frame)
    hand = exchange(around, inner=inner)
    hand.request(asked(9, {"orders": {0: batch("a", "b")}}))
    hand.lost("the client has closed")
    assert inner.heard == ["the client has closed"]
    assert errors(around.interceptors[0].told) == [("the client has closed", -1, False)] * 2


def test_nothing_of_the_records_is_kept_while_the_broker_takes_its_time() -> None:
    around = Intercepting("Listens")
    hand = exchange(around)
    hand.request(asked(9, {"orders": {0: batch("a")}}))
    assert (hand._frame, hand._parts, hand._request.topic_data) == (b"", [], ())


def test_the_moment_that_is_told_is_when_the_request_goes_to_the_broker() -> None:
    around = Intercepting("Adds")
    hand = exchange(around)
    around.around.pace.spent_s = 1.0
    step = hand.request(asked(9, {"orders": {0: batch("a")}}))
    assert isinstance(step, Hold)
    around.now_ms += 500
    around.around.pace.spent_s = 0
    step.then()
    assert [sent.sent_at for sent in hand._sent.values()] == [NOW + 500]
