"""Writes batches: edits records of one and keeps all other bytes, or builds a new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kafka_sidecar.codec.batch_layout import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_BITS,
    CONTROL,
    COUNT_AT,
    CRC_AT,
    HEADER,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_FROM,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
)
from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES, join
from kafka_sidecar.codec.records.batch import Batch
from kafka_sidecar.codec.records.compression import compress
from kafka_sidecar.codec.records.record import Header, Record
from kafka_sidecar.codec.records.records import Records
from kafka_sidecar.codec.wire import Buffer

MAGIC = 2
MAX_OFFSET_DELTA = 2**31 - 1
INT32, UINT32 = Struct(">i"), Struct(">I")
PRODUCER = Struct(">qhi")  # id, epoch, first sequence number
COMMIT_KEY = bytes((0, 0, 0, 1))  # version int16, type int16 (KIP-98)
COMMIT_VALUE = bytes(6)  # version int16, coordinator epoch int32


class Keep(Enum):
    """The type of `KEEP`, which means "unchanged" where None is a value."""

    KEEP = "keep"


KEEP = Keep.KEEP


class Change(NamedTuple):
    """What to write in place of a record's key, value and headers."""

    key: bytes | Keep | None = KEEP
    value: bytes | Keep | None = KEEP
    headers: Sequence[Header] | Keep = KEEP


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write. The default of ``offset_delta`` is its index in the batch."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp_delta: int = 0  # ms
    offset_delta: int | None = None
    attributes: int = 0


def edit_records(records: Records, changes: Iterable[tuple[Record, Change | None]]) -> Records:
    """The records with some of them changed, or dropped (None), which leaves a gap in the offsets, as compaction does.

    ``changes`` are in the order of the records and may be a generator. Without any, the result is ``records`` itself.
    """
    copied, left = 0, len(records)
    payload = records.payload if len(records.payload) < MIN_LARGE_BYTES else memoryview(records.payload)
    parts: list[Buffer] = []
    for record, change in changes:
        edges = record.edges()
        if copied < edges[0]:
            parts.append(payload[copied : edges[0]])
        if change is None:
            left -= 1
        else:
            parts += _changed(payload, edges, change)
        copied = edges[-1]
    if not copied:
        return records
    parts.append(payload[copied:])
    return records.with_payload(join(parts), left)


def reseal(batch: Batch, records: Records) -> bytes:
    """The batch with other records; length, count and checksum are updated, the rest of the header is kept.

    Also the last offset is kept if the last record is dropped: consumers continue after it (KAFKA-5443).
    """
    header = bytearray(batch.data[:BATCH_HEADER_SIZE])
    INT32.pack_into(header, COUNT_AT, len(records))
    return _seal(header, records.payload, batch.data[BATCH_HEADER_SIZE:])


def end_at(batch: bytes, last_offset_delta: int) -> bytes:
    """The batch (magic 2) with another last offset, which no record may be after."""
    data = bytearray(batch)
    INT32.pack_into(data, LAST_OFFSET_DELTA_AT, last_offset_delta)
    UINT32.pack_into(data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    return bytes(data)


def build_commit_marker(like: Batch, first_offset: int, last_offset: int) -> bytes:
    """A control batch, not of any transaction, for offsets of which all records are dropped. Every client skips it and
    continues after it. Leader epoch and time are those of ``like``, if its format has them.
    """
    first_offset = max(first_offset, last_offset - MAX_OFFSET_DELTA)  # what is missing before it looks compacted
    record = NewRecord(COMMIT_VALUE, COMMIT_KEY, offset_delta=last_offset - first_offset)
    is_old = like.magic != MAGIC
    return build_batch(
        [record],
        attributes=TRANSACTIONAL | CONTROL,
        base_offset=first_offset,
        leader_epoch=-1 if is_old else like.header.leader_epoch,
        base_timestamp=-1 if is_old else like.header.max_timestamp,
    )


def build_batch(
    records: Iterable[NewRecord],
    *,
    codec: int = 0,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    last_offset_delta: int | None = None,
    base_timestamp: int = 0,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A new batch. Defaults of None are computed from the records; ``attributes`` are the flags without the codec.
    Times are ms since 1970.

    >>> build_batch([NewRecord(b"v")]).hex(" ", 8)[-25:]
    '00000001 0e00000001027600'

    Raises:
        CodecError: unknown codec.
    """
    new = list(records)
    deltas = [index if record.offset_delta is None else record.offset_delta for index, record in enumerate(new)]
    payload = b"".join(_encode_new(record, delta) for record, delta in zip(new, deltas, strict=True))
    if last_offset_delta is None:
        last_offset_delta = max(deltas, default=-1)
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((record.timestamp_delta for record in new), default=0)
    header = HEADER.pack(
        base_offset, 0, leader_epoch, MAGIC, 0, attributes & ~CODEC_BITS | codec, last_offset_delta, base_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, len(new),
    )  # fmt: skip
    return _seal(bytearray(header), payload)


def build_single(
    value: bytes | memoryview, key: bytes | None, headers: Sequence[Header], timestamp: int, codec: int = 0
) -> tuple[bytes | memoryview, ...]:
    """A new batch of one record, without a producer id, as parts to be joined: a value that is not compressed is not
    copied.

    Raises:
        CodecError: unknown codec.
    """
    head = b"".join((_FIRST_RECORD, _encode_nullable(key), encode_varint(len(value))))
    tail = encode_headers(headers)
    length = encode_varint(len(head) + len(value) + len(tail))
    records: tuple[bytes | memoryview, ...] = (length + head, value, tail)
    if codec:
        records = (compress(codec, b"".join(records)),)
    size = BATCH_HEADER_SIZE - LENGTH_FROM + sum(map(len, records))
    header = bytearray(HEADER.pack(0, size, -1, MAGIC, 0, codec, 0, timestamp, timestamp, -1, -1, -1, 1))
    crc = crc32c(header[ATTRIBUTES_AT:])
    for part in records:
        crc = crc32c(part, crc)
    UINT32.pack_into(header, CRC_AT, crc)
    return (bytes(header), *records)


def build_encoded(payload: bytes, count: int, base_timestamp: int, max_timestamp: int, codec: int = 0) -> bytes:
    """A new batch of records that are encoded already, without a producer id.

    Raises:
        CodecError: unknown codec.
    """
    header = HEADER.pack(0, 0, -1, MAGIC, 0, codec, count - 1, base_timestamp, max_timestamp, -1, -1, -1, count)
    return _seal(bytearray(header), payload)


def with_producer(batch: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """The same batch of an idempotent producer (KIP-98)."""
    changed = bytearray(batch)
    PRODUCER.pack_into(changed, PRODUCER_ID_AT, producer_id, epoch, sequence)
    UINT32.pack_into(changed, CRC_AT, crc32c(memoryview(changed)[ATTRIBUTES_AT:]))
    return bytes(changed)


def _seal(header: bytearray, payload: bytes, before: bytes | memoryview = b"") -> bytes:
    """Header and records as a batch: compressed as the header says and as ``before`` was, with length and checksum."""
    records = compress(header[ATTRIBUTES_AT + 1] & CODEC_BITS, payload, before)
    INT32.pack_into(header, LENGTH_AT, BATCH_HEADER_SIZE - LENGTH_FROM + len(records))
    crc = crc32c(records, crc32c(header[ATTRIBUTES_AT:]))  # in two steps, which saves a copy
    UINT32.pack_into(header, CRC_AT, crc)
    return join((bytes(header), records))


def _changed(payload: Buffer, edges: tuple[int, ...], change: Change) -> Sequence[Buffer]:
    """A record, in parts: a value may be large."""
    _, start, keys_at, values_at, headers_at, end = edges
    key, value, headers = change
    if key is KEEP and value is KEEP:
        parts: tuple[Buffer, ...] = (payload[start:headers_at],)
    else:
        parts = (
            payload[start:keys_at],
            *((payload[keys_at:values_at],) if key is KEEP else _nullable(key)),
            *((payload[values_at:headers_at],) if value is KEEP else _nullable(value)),
        )
    last = payload[headers_at:end] if headers is KEEP else encode_headers(headers)
    return encode_varint(sum(map(len, parts)) + len(last)), *parts, last


def _encode_new(record: NewRecord, offset_delta: int) -> bytes:
    return _with_length(
        bytes((record.attributes,))
        + encode_varint(record.timestamp_delta)
        + encode_varint(offset_delta)
        + _encode_nullable(record.key)
        + _encode_nullable(record.value)
        + encode_headers(record.headers)
    )


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The headers of a record: their number, and each with its lengths."""
    parts = [encode_varint(len(headers))]
    for header in headers:
        parts += (_encode_nullable(header.key_bytes), _encode_nullable(header.value))
    return b"".join(parts)


def _encode_nullable(data: bytes | None) -> bytes:
    return NULL_BYTES if data is None else encode_varint(len(data)) + data


def _nullable(data: bytes | None) -> tuple[bytes, ...]:
    return (NULL_BYTES,) if data is None else (encode_varint(len(data)), data)


def _with_length(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


def encode_varint(value: int) -> bytes:
    """A signed varint or varlong, zigzag coded.

    >>> encode_varint(-1).hex(), encode_varint(150).hex()
    ('01', 'ac02')
    """
    raw = value << 1 if value >= 0 else -value * 2 - 1
    if raw < 128:
        return _ONE_BYTE[raw]
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_ONE_BYTE = [bytes((n,)) for n in range(128)]
NULL_BYTES = _ONE_BYTE[1]
_FIRST_RECORD = bytes(3)  # attributes, and the differences of timestamp and offset
