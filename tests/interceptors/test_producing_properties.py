"""A producer's chain under random edits and random failures."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from support.producer_interceptors import Edits, EditsWhole, SilentReport, adds, appends, fails

from kafka_sidecar.codec.records import Codec, Header, NewRecord, batches, build_batch, reseal
from kafka_sidecar.interceptors.contract import Context, Hints, ProducerInterceptor
from kafka_sidecar.interceptors.guard import Guard, Limits
from kafka_sidecar.interceptors.headers import ReadOnlyError
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.records import ProducerRecord

NOW = 1_700_000_000_000  # ms


@given(st.integers(0, 2**32), st.integers(1, 12), st.sets(st.integers(0, 4), max_size=3))
def test_a_failing_interceptor_hides_no_record_from_the_others(seed: int, count: int, whole: set[int]) -> None:
    random = Random(seed)
    raised: set[bytes] = set()

    def at_random(record: ProducerRecord) -> Any:
        if random.random() < 0.5:
            return appends(b"3")(adds("3")(record))
        raised.add((record.value or b"")[:1])
        adds("never")(record)
        raise random.choice((ValueError, SystemExit, ReadOnlyError))("at random")

    def of(at: int) -> ProducerInterceptor:
        if at == 2:
            return Edits(at_random)
        return EditsWhole() if at in whole else Edits(appends(b"%d" % (at + 1)))

    interceptors: list[Any] = [of(at) for at in range(5)]
    guards = [
        Guard(str(at), one, Hints(), SilentReport(), limits=Limits(failures=0)) for at, one in enumerate(interceptors)
    ]
    (batch,) = batches(build_batch([NewRecord(b"%c" % (65 + at)) for at in range(count)]))

    left = Producers(tuple(guards)).send(Context(lambda: NOW), "orders", 3, batch.records())

    names = [b"%c" % (65 + at) for at in range(count)]
    for one in interceptors:
        assert [(value or b"")[:1] for value in one.seen] == names
    expected = [
        name
        + b"".join(b"%d" % (at + 1) for at in range(5) if at not in whole - {2} and not (at == 2 and name in raised))
        for name in names
    ]
    assert [record.value for record in left] == expected
    assert [[header.key for header in record.headers] for record in left] == [
        [] if name in raised else ["3"] for name in names
    ]


texts = st.none() | st.binary(max_size=5)


keys = st.sampled_from(["", "a", "b", "ü"])


some_headers = st.lists(st.tuples(keys, texts), max_size=3)


a_record = st.tuples(texts, texts, some_headers)


an_edit = st.one_of(
    st.tuples(st.just("key"), texts),
    st.tuples(st.just("value"), texts | st.binary(min_size=100, max_size=200)),
    st.tuples(st.just("headers"), some_headers),
    st.tuples(st.just("add"), st.tuples(keys, texts)),
    st.tuples(st.just("remove"), keys),
    st.tuples(st.just("look"), st.none()),
)


edits_of_each = st.lists(st.lists(an_edit, max_size=3), min_size=1, max_size=6)


def edited(record: ProducerRecord, edits: Sequence[tuple[str, Any]]) -> ProducerRecord:
    for what, new in edits:
        if what == "add":
            record.headers.add(*new)
        elif what == "remove":
            record.headers.remove(new)
        elif what == "look":
            assert len(record.headers.to_tuple()) == len(list(record.headers))
        else:
            record = record.replace(**{what: new})
    return record


def as_expected(record: tuple[Any, Any, list[Any]], edits: Sequence[tuple[str, Any]]) -> tuple[Any, Any, list[Any]]:
    key, value, headers = record
    for what, new in edits:
        match what:
            case "key":
                key = new
            case "value":
                value = new
            case "headers":
                headers = new
            case "add":
                headers = [*headers, new]
            case "remove":
                headers = [pair for pair in headers if pair[0] != new]
    return key, value, list(headers)


@given(st.lists(a_record, min_size=1, max_size=6), edits_of_each, edits_of_each, st.sampled_from(Codec))
def test_after_any_edits_another_reader_finds_what_the_interceptors_returned(
    records: list[tuple[Any, Any, Any]], first: list[Any], second: list[Any], codec: Codec
) -> None:
    new = [NewRecord(value, key, [Header(*pair) for pair in headers], 7) for key, value, headers in records]
    (batch,) = batches(
        build_batch(new, codec=codec, base_timestamp=NOW, producer_id=9, producer_epoch=1, base_sequence=4)
    )
    steps = [Edits(lambda record, by=by: edited(record, by[record.index % len(by)])) for by in (first, second)]  # type: ignore[misc]
    chain = Producers(tuple(Guard("it", one, Hints(), SilentReport()) for one in steps))

    left = chain.send(Context(lambda: NOW), "orders", 3, batch.records())

    theirs = MemoryRecords(reseal(batch, left)).next_batch()
    assert theirs.validate_crc()
    expected = [
        as_expected(as_expected(record, first[at % len(first)]), second[at % len(second)])
        for at, record in enumerate(records)
    ]
    assert [(one.key, one.value, list(one.headers)) for one in theirs] == expected
    assert [(one.offset, one.timestamp) for one in MemoryRecords(reseal(batch, left)).next_batch()] == [
        (at, NOW + 7) for at in range(len(records))
    ]


@given(st.lists(a_record, max_size=5))
def test_a_chain_without_changes_returns_the_same_object(records: list[tuple[Any, Any, Any]]) -> None:
    def looks(record: ProducerRecord) -> ProducerRecord:
        assert record.headers.last_header("not there") is None
        record.headers.remove("not there")
        return record.replace() if record.key else record

    new = [NewRecord(value, key, [Header(*pair) for pair in headers]) for key, value, headers in records]
    (batch,) = batches(build_batch(new))
    chain = [Edits(looks), EditsWhole(), Edits(fails(ValueError(), adds("x"))), Edits(looks)]
    given_in = batch.records()
    guards = tuple(Guard("it", one, Hints(), SilentReport()) for one in chain)
    assert Producers(guards).send(Context(lambda: NOW), "orders", 3, given_in) is given_in
