"""Produce requests through interceptors: what the broker gets. kio reads and writes the frames."""

from __future__ import annotations

import gc
import sys
import threading
from base64 import b64encode
from random import Random

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from support import oracle
from support.interception import NOW, Intercepting, headers_in, only
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
    without_id,
)
from support.sent_records import ADDED, answer, each_version, errors, offsets, requested, with_headers

from kafka_sidecar.codec.envelope import MIN_VIEW_BYTES
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.records import Batch, NewRecord, batches, build_batch
from kafka_sidecar.plugins.effects import TURN, Work
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES, MIN_OFFLOADED_BYTES
from kafka_sidecar.proxy.features.interception import send_stage
from kafka_sidecar.proxy.features.interception.send_stage import RETRIABLE, count_records
from kafka_sidecar.proxy.features.validation.stage import PolicyFetch

# What no broker answers to a Produce: they are about controllers, fetch sessions, listeners, elections and shares.
NOT_OF_A_PRODUCE = {41, 70, 71, 72, 78, 80, 83, 84, 88, 106, 122, 123, 133}
FEWER = settings(max_examples=settings().max_examples // 2)
LIMIT = 100 << 20


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
    "no such codec": batch("a")[:22] + b"\x07" + batch("a")[23:],
    "not compressed": batch("a")[:22] + b"\x04" + batch("a")[23:],
    "producer without sequence": batch("a", producer_id=5),
}  # fmt: skip


@each_version
def test_the_broker_gets_what_the_interceptors_have_made_of_the_records_and_all_else_as_it_was(version: int) -> None:
    interception = Intercepting("Adds")
    out = interception.produce(version).request(
        produce_request(version, {"free": {0: batch("a")}, "orders": {3: batch("a", "keep b"), 0: batch("keep c")}})
    )
    want = {"free": {0: batch("a")}, "orders": {3: with_headers("a", "keep b"), 0: batch("keep c")}}
    assert out == produce_request(version, want)
    assert interception.stats.batches == {("Produce", "changed"): 1, ("Produce", "unchanged"): 1}


@each_version
def test_a_request_that_no_interceptor_changes_is_the_same_object(version: int) -> None:
    interception = Intercepting("Adds")
    frame = produce_request(version, {"orders": {0: batch("keep")}, "free": {0: batch("a")}})
    exchange = interception.produce(version)
    assert exchange.request(frame) is frame
    assert exchange.wants_response


def test_without_a_wanted_topic_no_response_is_wanted() -> None:
    frame = produce_request(9, {"payments": {0: batch("a")}, "free": {0: batch("a")}})
    exchange = Intercepting("Adds").produce()
    assert exchange.request(frame) is frame
    assert not exchange.wants_response


def test_policies_validate_the_clients_records_and_interceptors_see_the_accepted_ones() -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    (adds,) = interception.interceptors
    exchange = interception.produce(validating=validation)
    out = exchange.request(
        produce_request(9, {"orders": {0: batch("good"), 1: batch("bad", "good"), 2: batch("keep")}})
    )
    assert out == produce_request(9, {"orders": {0: with_headers("good"), 2: batch("keep")}})
    assert adds.values == [b"good", b"keep"]
    got = exchange.response(produce_response(9, {"orders": {0: 10, 2: 20}}))
    assert isinstance(got, bytes)
    assert results(9, got) == [("orders", 0, 0, 10), ("orders", 1, INVALID_RECORD, -1), ("orders", 2, 0, 20)]
    by_partition = {at: [one for one in adds.acknowledged if one[0].partition == at] for at in (0, 1, 2)}
    assert offsets(by_partition[0]) == [10]
    bad, beside_it = errors(by_partition[1])
    assert bad is not None
    assert (without_id(bad[0]), *bad[1:]) == ("orders takes no bad", INVALID_RECORD, False)
    assert beside_it == ("other records of its batch were rejected", -1, False)
    assert offsets(by_partition[2]) == [20]
    assert len(adds.acknowledged) == 4


async def test_an_id_that_is_not_known_is_asked_for_once() -> None:
    interception = Intercepting("Adds", topics=("orders*",))
    interception.hidden = {"orders-2"}
    exchange = interception.produce(FIRST_WITH_IDS)
    step = await interception.finish(exchange, produce_request(FIRST_WITH_IDS, {"orders-2": {0: batch("a")}}))
    assert step == produce_request(FIRST_WITH_IDS, {"orders-2": {0: with_headers("a")}})
    assert interception.asked_for == [topic_id("orders-2")]
    exchange.response(produce_response(FIRST_WITH_IDS, {"orders-2": {0: 5}}))
    assert [(one.topic, one.offset) for one, _ in interception.interceptors[0].acknowledged] == [("orders-2", 5)]


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_a_topic_without_a_known_name_goes_on_as_it_came(cluster_answers: bool) -> None:
    interception = Intercepting("Adds", topics=("*",))
    interception.cluster_answers = cluster_answers
    frame = produce_request(FIRST_WITH_IDS, {"who": {0: batch("a")}})
    exchange = interception.produce(FIRST_WITH_IDS)
    assert await interception.finish(exchange, frame) is frame
    assert len(interception.needs) == 1
    assert not exchange.wants_response


@pytest.mark.parametrize("what", ODD)
async def test_what_brokers_refuse_goes_on_byte_for_byte_so_that_they_refuse_it(what: str) -> None:
    interception = Intercepting("Adds", "Listens")
    exchange = interception.produce()
    frame = produce_request(9, {"orders": {0: ODD[what], 1: batch("a")}})
    assert await interception.finish(exchange, frame) == produce_request(
        9, {"orders": {0: ODD[what], 1: with_headers("a")}}
    )
    exchange.response(answer(9, error_code=87, base_offset=-1))
    for one in interception.interceptors:
        assert len(one.acknowledged) < 100  # a header may say anything
        assert all(error is not None for _, error in one.acknowledged)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_header_that_announces_two_thousand_million_records_costs_nothing(acks: int) -> None:
    interception = Intercepting("Listens")
    exchange = interception.produce()
    exchange.request(produce_request(9, {"orders": {0: ODD["very many records announced"]}}, acks))
    exchange.lost("closed")
    assert len(interception.interceptors[0].acknowledged) < 100


def test_a_batch_with_only_its_header_read_is_acknowledged_by_its_count_however_small_it_is() -> None:
    interception = Intercepting("Listens")
    for ending in ("acks", "lost", "error"):
        exchange = interception.produce()
        records = batch(*["same"] * 2000, codec=4)
        assert len(records) < 2000
        exchange.request(produce_request(9, {"orders": {0: records}}, acks=ending != "acks"))
        if ending == "error":
            exchange.response(answer(9, error_code=87, base_offset=-1))
        exchange.lost("closed")
        assert len(interception.interceptors[0].acknowledged) == 2000, ending
        interception.interceptors[0].acknowledged.clear()


def test_a_batch_that_holds_more_than_the_limit_is_left_alone() -> None:
    interception = Intercepting("Adds", limit=10_000)
    frame = produce_request(9, {"orders": {0: batch("x" * 20_000, codec=1)}})
    exchange = interception.produce()
    assert exchange.request(frame) is frame
    assert interception.stats.batches == {("Produce", "too_large"): 1}
    exchange.response(produce_response(9, {"orders": {0: 3}}))
    assert offsets(interception.interceptors[0].acknowledged) == [3]


@pytest.mark.parametrize(("limit", "fits"), [(5000, False), (7000, True)])
def test_a_batch_that_would_become_too_large_is_written_as_it_was_sent(limit: int, fits: bool) -> None:
    interception = Intercepting("Adds", message_max_bytes=limit)
    frame = produce_request(9, {"orders": {0: batch("larger")}})
    exchange = interception.produce()
    out = exchange.request(frame)
    assert (out is frame) is not fits
    assert interception.stats.batches["Produce", "would_be_too_large"] == (not fits)
    exchange.response(produce_response(9, {"orders": {0: 3}}))
    sizes = [metadata.serialized_value_size for metadata, _ in interception.interceptors[0].acknowledged]
    assert sizes == [6000 if fits else 6]


def test_a_batch_of_exactly_the_limit_is_written() -> None:
    frame = produce_request(9, {"orders": {0: batch("larger")}})
    changed = Intercepting("Adds", message_max_bytes=1 << 20).produce().request(frame)
    assert isinstance(changed, bytes)
    size = len(requested(9, changed)["orders"][0])
    for limit, expected in ((size, changed), (size - 1, frame)):
        assert Intercepting("Adds", message_max_bytes=limit).produce().request(frame) == expected


@pytest.mark.parametrize(("word", "left_alone"), [("smaller", False), ("grows", True)])
def test_a_batch_that_is_too_large_already_may_be_changed_where_it_does_not_grow(word: str, left_alone: bool) -> None:
    interception = Intercepting("Adds", message_max_bytes=10)
    frame = produce_request(9, {"orders": {0: batch(f"{word} {'x' * 500}")}})
    assert (interception.produce().request(frame) is frame) is left_alone
    assert interception.stats.batches["Produce", "would_be_too_large"] == left_alone


def test_unknown_tagged_fields_of_a_request_survive_a_change() -> None:
    plain = produce_request(9, {"orders": {0: batch("a")}, "free": {0: batch("b")}})
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

    out = Intercepting("Adds").produce().request(tagged(request, batch("a")))
    assert out == tagged(request, with_headers("a"))
    assert b"seven" in out


@pytest.mark.parametrize("codec", range(5))
def test_of_a_batch_only_the_records_and_what_follows_from_them_are_changed(codec: int) -> None:
    records = build_batch(
        [NewRecord(b"a", b"k", timestamp_delta=-3), NewRecord(None, timestamp_delta=9, attributes=1)], codec=codec,
        attributes=0x10, base_offset=0, leader_epoch=4, base_timestamp=NOW, max_timestamp=NOW + 100, producer_id=77,
        producer_epoch=3, base_sequence=1000,
    )  # fmt: skip
    interception = Intercepting("Adds")
    out = interception.produce().request(produce_request(9, {"orders": {0: records}}))
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


def test_an_interceptor_that_fails_is_passed_over_and_the_request_goes_on() -> None:
    interception = Intercepting("Adds", "Adds")
    _, second = interception.interceptors
    second.header = b"second"
    out = interception.produce().request(produce_request(9, {"orders": {0: batch("fails", "a")}}))
    assert isinstance(out, bytes)
    assert headers_in(requested(9, out)["orders"][0]) == [[], [ADDED, ("added", b"second")]]
    assert interception.catalog.guards[0].failures["on_send"] == 1


def test_each_topic_has_its_own_interceptors() -> None:
    interception = Intercepting("Adds", topics=("orders", "payments"))
    exchange = interception.produce()
    exchange.request(
        produce_request(
            9, {"payments": {0: batch("a")}, "free": {0: batch("b")}, "orders": {0: batch("c"), 2: batch()}}
        )
    )
    exchange.response(produce_response(9, {"payments": {0: 1}, "free": {0: 2}, "orders": {0: 3, 2: 4}}))
    acknowledged = [
        (metadata.topic, metadata.partition, metadata.offset)
        for metadata, _ in interception.interceptors[0].acknowledged
    ]
    assert sorted(acknowledged) == [("orders", 0, 3), ("payments", 0, 1)]


@pytest.mark.parametrize(("codec", "large"), list(MIN_OFFLOADED_BYTES.items()))
async def test_large_batches_are_intercepted_in_a_thread_and_small_ones_at_once(codec: int, large: int) -> None:
    for size, elsewhere in ((large // 2, False), (large * 3 // 2, True)):
        interception = Intercepting("Adds", limit=100 << 20, message_max_bytes=100 << 20)
        text = b64encode(Random(1).randbytes(size)).decode()[:size]
        exchange = interception.produce()
        out = await interception.finish(exchange, produce_request(9, {"orders": {0: batch(text, codec=codec)}}))
        assert isinstance(out, bytes)
        assert headers_in(requested(9, out)["orders"][0]) == [[ADDED]]
        assert len(interception.needs) == elsewhere
        assert (threading.get_ident() not in interception.interceptors[0].threads) is elsewhere


@pytest.mark.parametrize(("records", "waits"), [(1000, 0), (1001, 1)])
async def test_many_records_are_intercepted_in_a_thread(records: int, waits: int) -> None:
    interception = Intercepting("Adds")
    await interception.finish(interception.produce(), produce_request(9, {"orders": {0: batch(*["a"] * records)}}))
    assert len(interception.needs) == waits
    assert len(interception.interceptors[0].values) == records


async def test_a_small_batch_that_holds_much_is_begun_again_in_a_thread_and_seen_once() -> None:
    interception = Intercepting("Adds", limit=100 << 20)
    text = "x" * (MAX_INLINE_BYTES + 1)
    await interception.finish(
        interception.produce(), produce_request(9, {"orders": {0: batch(text, codec=4), 1: batch("b")}})
    )
    assert len(interception.needs) == 1
    assert len(interception.interceptors[0].values) == 2


def test_other_connections_may_have_a_turn_before_each_batch() -> None:
    exchange = Intercepting("Adds").produce()
    exchange.turns = True
    step = exchange.request(produce_request(9, {"orders": {0: batch("a"), 1: batch("b")}, "free": {0: batch("c")}}))
    assert (step, exchange.answer()) == (TURN, TURN)
    want = {"orders": {0: with_headers("a"), 1: with_headers("b")}, "free": {0: batch("c")}}
    assert exchange.answer() == produce_request(9, want)


async def test_a_large_request_is_read_as_views_and_written_whole() -> None:
    interception = Intercepting("Adds", limit=10 << 20, message_max_bytes=10 << 20)
    large = "x" * MIN_VIEW_BYTES
    frame = produce_request(9, {"orders": {0: batch(large), 1: batch("keep")}, "free": {0: batch("f")}})
    out = await interception.finish(interception.produce(), frame)
    assert out == produce_request(9, {"orders": {0: with_headers(large), 1: batch("keep")}, "free": {0: batch("f")}})


def test_interceptors_wait_for_policies_that_wait() -> None:
    interception, validation = Intercepting("Adds"), Validating(*GUARDED, names=("orders",))
    exchange = interception.produce(validating=validation)
    need = exchange.request(produce_request(9, {"orders": {0: batch("ask a")}}))
    assert isinstance(need, PolicyFetch)
    assert need.key == b"a"
    assert interception.interceptors[0].values == []
    validation.policy.known.add(b"a")
    assert exchange.answer() == produce_request(9, {"orders": {0: with_headers("ask a")}})


def test_nothing_of_the_records_is_kept_while_the_broker_takes_its_time() -> None:
    exchange = Intercepting("Listens").produce()
    frame = produce_request(9, {"orders": {0: batch("a")}})
    before = sys.getrefcount(frame)
    assert exchange.request(frame) is frame
    gc.collect()
    assert sys.getrefcount(frame) == before


def test_a_small_batch_that_holds_much_leaves_the_thread_for_light_work_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_LIGHT_INFLATED", 5000)
    interception = Intercepting("Adds")
    exchange, values = interception.produce(), ["a"] * 1001
    first = exchange.request(produce_request(9, {"orders": {0: batch(*values)}}))
    assert isinstance(first, Work)
    assert first.is_light
    assert first.run() is None
    assert interception.interceptors[0].values == []
    second = exchange.answer(None)
    assert isinstance(second, Work)
    assert not second.is_light
    assert exchange.answer(second.run()) == produce_request(9, {"orders": {0: with_headers(*values)}})


def test_what_a_policy_has_inflated_is_intercepted_before_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_INLINE_BYTES", 5000)
    exchange = Intercepting("Adds").produce(validating=Validating(*GUARDED, names=("orders",)))
    validated = exchange.request(produce_request(9, {"orders": {0: batch(*["good"] * 1001)}}))
    assert isinstance(validated, Work)
    assert not validated.goes_on
    intercepted = exchange.answer(validated.run())
    assert isinstance(intercepted, Work)
    assert intercepted.goes_on


def test_what_is_not_intercepted_in_time_goes_on_as_it_came() -> None:
    interception = Intercepting("Adds")
    exchange = interception.produce()
    many = batch(*["a"] * 1001)
    work = exchange.request(produce_request(9, {"orders": {0: many, 1: batch("b")}}))
    assert isinstance(work, Work)
    out = exchange.fail(TimeoutError())
    assert out == produce_request(9, {"orders": {0: many, 1: with_headers("b")}})
    assert work.run() is not None  # its thread may still be at it: nothing changes by that
    assert exchange.response(produce_response(9, {"orders": {0: 5, 1: 9}})) == produce_response(
        9, {"orders": {0: 5, 1: 9}}
    )
    assert interception.stats.batches == {("Produce", "timed_out"): 1, ("Produce", "changed"): 1}


def test_just_those_errors_are_retriable_that_are_so_for_kafka() -> None:
    assert {error.value for error in ErrorCode if error.retriable} - NOT_OF_A_PRODUCE == RETRIABLE


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("records", [1, 10, 20_000])
def test_a_header_is_believed_where_it_is_right_however_well_the_records_are_compressed(
    codec: int, records: int
) -> None:
    smallest = build_batch([NewRecord(None, offset_delta=0)] * records, codec=codec, last_offset_delta=records - 1)
    (found,) = batches(smallest)
    assert count_records(found, LIMIT) == records


@FEWER
@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 4))
def test_a_header_that_announces_more_than_there_can_be_is_not_believed(count: int, codec: int) -> None:
    whole = batch("a", codec=codec)
    (found,) = batches(whole[:57] + count.to_bytes(4, "big", signed=True) + whole[61:])
    assert 0 <= count_records(found, 1000) <= 1000 // 7
    assert count_records(found, 1000) <= max(count, 0)
