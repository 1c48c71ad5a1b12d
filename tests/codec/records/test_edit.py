"""Editing the headers of all records at once gives the same bytes as editing each record alone."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from fuzz.batches import sample_batch, spoilt
from hypothesis import given
from hypothesis import strategies as some
from support.batches import rebuilt

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import (
    KEEP,
    BatchTooLargeError,
    Change,
    Codec,
    Header,
    Keep,
    NewRecord,
    Record,
    Records,
    batches,
    build_batch,
    reseal,
    with_header,
    with_header_each,
    without_headers,
)

with warnings.catch_warnings():  # kafka-python reads its resources in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

KEYS = some.sampled_from([b"", b"a", b"b", b"ab", b"\xff\xfe", b"x" * 70])
VALUES = some.one_of(some.none(), some.binary(max_size=3), some.sampled_from([b"v" * 63, b"v" * 64, b"v" * 9000]))
HEADERS = some.lists(some.builds(Header, KEYS, VALUES), max_size=6) | some.just([Header("a", b"1")] * 64)
NEW = some.builds(NewRecord, VALUES, VALUES, HEADERS, timestamp_delta=some.integers(-(2**63), 2**63 - 1))
BATCHES = some.lists(NEW, max_size=5)


def records_of(new: Sequence[NewRecord]) -> Records:
    return batches(build_batch(new, max_timestamp=0))[0].records()


def checked(found: Records) -> bytes:
    """The payload of an edit, which is not checked there: every length fits."""
    return Records(found.payload, len(found)).payload


def one_by_one(new: Sequence[NewRecord], headers: Callable[[Record], Sequence[Header]]) -> bytes:
    """The payload as it is when each record is rewritten on its own."""
    (batch,) = batches(build_batch(new, max_timestamp=0))
    changes = {record.index: Change(headers=headers(record)) for record in batch.records()}
    return batches(rebuilt(batch, changes))[0].records().payload


@given(new=BATCHES, key=KEYS, value=VALUES)
def test_a_header_is_added_at_the_end_of_every_record(new: list[NewRecord], key: bytes, value: bytes | None) -> None:
    found = with_header(records_of(new), key, value)

    assert checked(found) == one_by_one(new, lambda record: (*record.headers, Header(key, value)))


@given(new=BATCHES, key=KEYS, value=VALUES)
def test_a_header_is_added_only_to_records_without_it(new: list[NewRecord], key: bytes, value: bytes | None) -> None:
    found = with_header(records_of(new), key, value, only_if_absent=True)

    added = (Header(key, value),)
    assert checked(found) == one_by_one(new, lambda one: one.headers + (() if one.header(key) else added))


@given(new=BATCHES, key=KEYS, only_if_absent=some.booleans(), data=some.data())
def test_each_record_can_get_its_own_header_value_or_none(
    new: list[NewRecord], key: bytes, only_if_absent: bool, data: some.DataObject
) -> None:
    values = data.draw(some.lists(VALUES | some.just(KEEP), min_size=len(new), max_size=len(new)))

    found = with_header_each(records_of(new), key, values, only_if_absent=only_if_absent)

    def expected(record: Record) -> Sequence[Header]:
        value = values[record.index]
        skipped = isinstance(value, Keep) or (only_if_absent and record.header(key) is not None)
        return record.headers if skipped else (*record.headers, Header(key, value))  # type: ignore[arg-type]

    assert checked(found) == one_by_one(new, expected)


@given(new=BATCHES, keys=some.sets(KEYS))
def test_all_headers_with_a_key_are_removed(new: list[NewRecord], keys: set[bytes]) -> None:
    found = without_headers(records_of(new), keys)

    assert checked(found) == one_by_one(
        new, lambda one: [header for header in one.headers if header.key_bytes not in keys]
    )


@dataclass(frozen=True)
class Written:
    """The bytes of a record, with varints that may be longer than needed."""

    fields: bytes  # all between its length and the number of its headers
    headers: tuple[tuple[bytes, bytes], ...]  # key; key and value as they are written
    longer: int = 0

    def __bytes__(self) -> bytes:
        body = self.fields + number(len(self.headers), self.longer) + b"".join(written for _, written in self.headers)
        return number(len(body), self.longer) + body


def number(value: int, longer: int = 0) -> bytes:
    """A varint, written independently of the codec; ``longer`` than needed by so many bytes."""
    raw = (value << 1 ^ value >> 31) & 0xFFFFFFFF
    digits = max(1, (raw.bit_length() + 6) // 7)
    size = min(5, digits + longer)
    return bytes(raw >> 7 * digit & 127 | (128 if digit < size - 1 else 0) for digit in range(size))


def sized(data: bytes | None, longer: int) -> bytes:
    return number(-1) if data is None else number(len(data), longer) + data


LONGER = some.integers(0, 4)
RAW_HEADERS = some.builds(
    lambda key, value, longer: (key, sized(key, longer) + sized(value, longer)), KEYS, VALUES, LONGER
)
RAW = some.builds(
    lambda key, value, longer, headers: Written(
        b"\x07" + number(-5, longer) + number(9, longer) + sized(key, longer) + sized(value, longer), headers, longer
    ),
    VALUES,
    VALUES,
    LONGER,
    some.lists(RAW_HEADERS, max_size=5).map(tuple),
)


@given(before=some.lists(RAW, max_size=4), key=KEYS, value=VALUES)
def test_adding_a_header_rewrites_only_the_record_length_and_header_count(
    before: list[Written], key: bytes, value: bytes | None
) -> None:
    records = Records(b"".join(map(bytes, before)), len(before))

    found = with_header(records, key, value, only_if_absent=True)

    added = ((key, sized(key, 0) + sized(value, 0)),)
    assert checked(found) == b"".join(
        bytes(one if key in dict(one.headers) else Written(one.fields, one.headers + added)) for one in before
    )


@given(before=some.lists(RAW, max_size=4), keys=some.sets(KEYS, max_size=3))
def test_removing_headers_rewrites_only_the_record_length_and_header_count(
    before: list[Written], keys: set[bytes]
) -> None:
    records = Records(b"".join(map(bytes, before)), len(before))

    found = without_headers(records, keys)

    left = [replace(one, headers=tuple(pair for pair in one.headers if pair[0] not in keys)) for one in before]
    assert checked(found) == b"".join(
        bytes(one if one == old else replace(one, longer=0)) for one, old in zip(left, before, strict=True)
    )


@pytest.mark.bulk
def test_corrupt_but_readable_records_are_edited_correctly() -> None:
    edited = 0
    for seed in range(1000):
        try:
            (batch,) = batches(spoilt(Random(seed), sample_batch(Random(seed))))
            records = batch.records(1 << 14)
        except (CodecError, ValueError):  # most cannot be read
            continue
        shorter = without_headers(records, [b"trace", b""])
        longer = with_header(shorter, b"trace", b"new")

        for old, new in zip(records, longer, strict=True):
            left = tuple(header for header in old.headers if header.key_bytes not in (b"trace", b""))
            assert new.headers == (*left, Header("trace", b"new"))
            assert (new.key, new.value, new.attributes) == (old.key, old.value, old.attributes)
            assert (new.timestamp, new.offset_delta) == (old.timestamp, old.offset_delta)
            edited += 1
    assert edited > 300


def test_an_edit_without_changes_returns_the_same_object() -> None:
    records = records_of([NewRecord(b"v", headers=[Header("a", None)])] * 3)

    assert with_header(records, b"a", b"v", only_if_absent=True) is records
    assert with_header_each(records, b"b", [KEEP] * 3) is records
    assert without_headers(records, [b"", b"b", b"aa"]) is records
    assert without_headers(records, []) is records
    nothing = records_of([])
    assert with_header(nothing, b"a", b"v") is nothing


def test_a_null_value_of_a_new_header_is_not_empty() -> None:
    records = records_of([NewRecord(b"v")] * 2)

    found = with_header_each(records, b"", [None, b""])

    assert [record.headers for record in found] == [(Header("", None),), (Header("", b""),)]


@pytest.mark.parametrize("values", [[], [b"1"], [b"1", b"2", b"3"]])
def test_the_number_of_header_values_must_be_the_number_of_records(values: list[bytes]) -> None:
    with pytest.raises(CodecError, match=f"{len(values)} header values for 2 records"):
        with_header_each(records_of([NewRecord(b"v")] * 2), b"a", values)


@pytest.mark.parametrize("last", [b"value", KEEP], ids=["all", "all but the last"])
def test_a_result_larger_than_the_limit_is_rejected(last: bytes | Keep) -> None:
    records = records_of([NewRecord(b"v" * 100)] * 10)
    values = [b"value"] * 9 + [last]
    size = len(with_header_each(records, b"key", values).payload)

    assert len(with_header_each(records, b"key", values, limit=size).payload) == size
    with pytest.raises(BatchTooLargeError, match=f"more than {size - 1} bytes"):
        with_header_each(records, b"key", values, limit=size - 1)
    with pytest.raises(BatchTooLargeError):
        with_header(records, b"key", b"value", limit=size - 1)


def test_the_limit_applies_to_the_size_after_lengths_were_shortened() -> None:
    short, long = Written(bytes(5), ()), Written(bytes(5), (), longer=4)
    records = Records(bytes(short) + bytes(long), 2)
    size = len(with_header(records, b"", b"").payload)

    assert size < len(records.payload)
    assert len(with_header(records, b"", b"", limit=size).payload) == size
    with pytest.raises(BatchTooLargeError):
        with_header(records, b"", b"", limit=size - 1)


@pytest.mark.bulk
@pytest.mark.parametrize("limit", [100 << 20, 2**62])
def test_a_result_over_the_limit_is_rejected_before_memory_is_allocated(limit: int) -> None:
    records = records_of([NewRecord(b"v")] * 100_000)
    value = bytes(4 << 20)  # all in all 400 GB
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLargeError):
            with_header(records, b"key", value, limit=limit)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 1 << 20


@pytest.mark.parametrize("wrong", [None, "text"])
def test_a_header_key_that_is_not_bytes_raises_type_error(wrong: object) -> None:
    records = records_of([NewRecord(b"v", headers=[Header("text", b"")])])

    with pytest.raises(TypeError):
        with_header(records, wrong, b"v")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        without_headers(records, [wrong])  # type: ignore[list-item]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", [AiokafkaRecords, KafkaPythonRecords])
def test_clients_read_added_headers_and_not_removed_ones(
    client: type[AiokafkaRecords] | type[KafkaPythonRecords], codec: Codec
) -> None:
    kept, gone = ("kept", b"1"), ("gone", None)
    new = [NewRecord(b"%d" % number, b"key", [Header(*kept), Header(*gone)] * 2) for number in range(200)]
    (batch,) = batches(build_batch(new, codec=codec, base_offset=40, producer_id=7, producer_epoch=1, base_sequence=3))
    records = batch.records()

    records = without_headers(records, [b"gone"])
    records = with_header(records, b"null", None)
    records = with_header_each(records, b"number", [b"%d" % number for number in range(200)])
    theirs = client(reseal(batch, records)).next_batch()

    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.base_sequence, theirs.compression_type) == (7, 3, codec)
    assert [(one.offset, one.key, one.value, list(one.headers)) for one in theirs] == [
        (40 + number, b"key", b"%d" % number, [kept, kept, ("null", None), ("number", b"%d" % number)])
        for number in range(200)
    ]
