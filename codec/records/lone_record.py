"""The record of a batch that has only one, without a copy of its large value."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.codec.batch_layout import BATCH_HEADER_SIZE, CODEC_BITS, LOG_APPEND_TIME
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records.batch import Batch
from kafka_sidecar.codec.records.records import Records
from kafka_sidecar.codec.records.writing import encode_varint
from kafka_sidecar.codec.wire import read_uvarint

MIN_VALUE_BYTES = 64 << 10  # from this size on a view is cheaper than a copy
MAX_OTHER_BYTES = 64 << 10  # which are copied
MAX_KEPT = 32  # times its own size, that a view may keep in memory
EMPTY = encode_varint(0)
NULL = 1  # -1, zigzag coded


@dataclass(frozen=True, slots=True)
class LoneRecord:
    """The three parts follow each other and are all bytes of the record."""

    records: Records  # the record, with an empty value
    before: memoryview
    value: memoryview
    after: memoryview


def lone_record(batch: Batch) -> LoneRecord | None:
    """The record of an uncompressed batch with a large value; None: it is another one, or damaged.

    Raises:
        CodecError: the batch is older than magic 2.
    """
    header, data = batch.header, batch.data[BATCH_HEADER_SIZE:]
    attributes = header.attributes
    if header.count != 1 or attributes & CODEC_BITS or len(data) < MIN_VALUE_BYTES:
        return None
    try:
        start, size_at, at, end = _positions(data)
        before, value, after = data[:at], data[at:end], data[end:]
        if len(before) + len(after) > MAX_OTHER_BYTES or len(value) * MAX_KEPT < memoryview(data.obj).nbytes:
            return None
        others = b"".join((data[start:size_at], EMPTY, after))
        appended = header.max_timestamp if attributes & LOG_APPEND_TIME else None
        records = Records(encode_varint(len(others)) + others, 1, header.base_timestamp, appended)
    except (CodecError, IndexError):
        return None
    return LoneRecord(records, before, value, after)


def _positions(data: memoryview) -> tuple[int, int, int, int]:
    """Where the attributes, the value's length, the value and what follows it begin. The layout is in records.py.

    Raises:
        CodecError: the record is not all of the data, or its value small or null.
        IndexError: the data end before the value.
    """
    raw, start = read_uvarint(data, 0)
    if raw & 1 or start + (raw >> 1) != len(data):
        raise CodecError("the length of a record is not that of all bytes")
    at = start + 1
    for _ in range(2):  # timestamp and offset
        while data[at] > 127:
            at += 1
        at += 1
    raw, at = read_uvarint(data, at)
    if raw & 1 and raw != NULL:
        raise CodecError("invalid length of a key")
    size_at = at + (raw >> 1)
    raw, at = read_uvarint(data, size_at)
    end = at + (raw >> 1)
    if raw & 1 or end - at < MIN_VALUE_BYTES or end > len(data):
        raise CodecError("a value is small, null, or longer than its record")
    return start, size_at, at, end
