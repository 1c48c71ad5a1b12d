"""The record of a batch that has only one, without a copy of its value."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.batch_layout import LOG_APPEND_TIME
from kafka_sidecar.codec.records import (
    BATCH_HEADER_SIZE,
    Batch,
    Codec,
    Header,
    NewRecord,
    batches,
    build_batch,
    lone_record,
)
from kafka_sidecar.codec.records.lone_record import MAX_KEPT, MAX_OTHER_BYTES, MIN_VALUE_BYTES

VALUE = os.urandom(MIN_VALUE_BYTES + 1000)
HEADERS = st.lists(
    st.builds(Header, st.text(max_size=10), st.one_of(st.none(), st.binary(max_size=200))), max_size=3
).map(tuple)
KEYS = st.one_of(st.none(), st.binary(max_size=300))


def one(batch: bytes) -> Batch:
    (found,) = batches(batch)
    return found


def assert_same(batch: Batch) -> None:
    """What it says is what reading all of the batch says."""
    lone, records = lone_record(batch), batch.records()
    assert lone is not None
    assert b"".join((lone.before, lone.value, lone.after)) == batch.data[BATCH_HEADER_SIZE:]
    (found,), (record,) = lone.records, records
    assert bytes(lone.value) == record.value
    assert found.value == b""
    assert lone.value.obj is batch.data.obj
    said = (found.key, found.headers, found.timestamp, found.timestamp_delta, found.offset_delta, found.attributes)
    assert said == (
        record.key, record.headers, record.timestamp, record.timestamp_delta, record.offset_delta, record.attributes,
    )  # fmt: skip


@given(KEYS, HEADERS, st.integers(0, 2**40), st.booleans())
def test_it_says_what_reading_all_of_it_says(
    key: bytes | None, headers: tuple[Header, ...], timestamp: int, is_append_time: bool
) -> None:
    attributes = LOG_APPEND_TIME if is_append_time else 0
    record = NewRecord(VALUE, key, headers, timestamp)
    assert_same(one(build_batch([record], base_offset=7, attributes=attributes)))


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
def test_damaged_bytes_are_never_read_as_something_else(changes: list[tuple[int, int]], at_end: bool) -> None:
    data = bytearray(build_batch([NewRecord(VALUE, b"key", (Header("h", b"1"),))]))
    for at, byte in changes:
        data[-1 - at if at_end else BATCH_HEADER_SIZE + at] = byte
    batch = one(bytes(data))
    if lone_record(batch) is not None:
        assert_same(batch)


@pytest.mark.parametrize(
    "batch",
    [
        build_batch([NewRecord(VALUE), NewRecord(b"another")]),
        build_batch([NewRecord(VALUE)], codec=Codec.ZSTD),
        build_batch([NewRecord(VALUE[: MIN_VALUE_BYTES - 1])]),
        build_batch([NewRecord(None, bytes(MIN_VALUE_BYTES))]),
        build_batch([NewRecord(VALUE, bytes(MAX_OTHER_BYTES))]),
        build_batch([NewRecord(VALUE, b"key", (Header("h", bytes(MAX_OTHER_BYTES)),))]),
    ],
    ids=["two records", "compressed", "small", "null", "a large key", "large headers"],
)
def test_other_batches_are_read_whole(batch: bytes) -> None:
    assert lone_record(one(batch)) is None


@pytest.mark.parametrize("times", [MAX_KEPT - 2, MAX_KEPT + 2])
def test_no_value_keeps_much_more_than_itself_in_memory(times: int) -> None:
    data = build_batch([NewRecord(VALUE)]) + build_batch([NewRecord(bytes((times - 1) * len(VALUE)))])
    first, _ = batches(data)
    assert (lone_record(first) is None) is (times > MAX_KEPT)
