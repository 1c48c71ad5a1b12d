"""A records field split into batches, each with its header of 61 bytes.

This file runs as it is and compiled (batch.pxd holds the C types).
"""

from __future__ import annotations

import zlib
from typing import Any

from crc32c import crc32c

from kafka_sidecar.codec.batch_layout import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_BITS,
    CONTROL,
    HEADER,
    LENGTH_AT,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MIN_BATCH_BYTES,
    NEWEST_MAGIC,
    TRANSACTIONAL,
)
from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.records.compression import BatchTooLargeError, decompress
from kafka_sidecar.codec.records.records import Records
from kafka_sidecar.codec.wire import LENGTH

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBuffer_IsContiguous
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER

OLD_CRC_AT = 12  # magic 0 and 1
MAX_RECORDS_BYTES = 100 << 20
MAX_RECORDS = 1_000_000
# For C.
_LENGTH_FROM, _MAGIC_AT, _MAGIC, _HEADER_SIZE = LENGTH_FROM, MAGIC_AT, NEWEST_MAGIC, BATCH_HEADER_SIZE


class BatchHeader:
    """The 61 bytes before the records (magic 2), read only. Times are milliseconds since 1970."""

    __slots__ = (
        "attributes", "base_offset", "base_sequence", "base_timestamp", "count", "crc", "last_offset_delta",
        "leader_epoch", "length", "magic", "max_timestamp", "producer_epoch", "producer_id",
    )  # fmt: skip

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # of records

    @property
    def codec(self) -> int:
        """0 to 4 as in `Codec`; 5 to 7 are invalid."""
        return self.attributes & CODEC_BITS

    @property
    def has_log_append_time(self) -> bool:
        """Whether the broker has set the timestamp of all records, to ``max_timestamp`` (KIP-32)."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction (KIP-98)."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a control record, such as the marker of a transaction, not records of an application."""
        return bool(self.attributes & CONTROL)

    def fields(self) -> dict[str, int]:
        """All fields by name, in wire order."""
        return {
            "base_offset": self.base_offset, "length": self.length, "leader_epoch": self.leader_epoch,
            "magic": self.magic, "crc": self.crc, "attributes": self.attributes,
            "last_offset_delta": self.last_offset_delta, "base_timestamp": self.base_timestamp,
            "max_timestamp": self.max_timestamp, "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch, "base_sequence": self.base_sequence, "count": self.count,
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self.fields() == other.fields() if isinstance(other, BatchHeader) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.fields().values()))

    def __repr__(self) -> str:
        return f"BatchHeader({', '.join(f'{name}={value}' for name, value in self.fields().items())})"


class Batch:
    """One batch, not decompressed. Batches older than magic 2 have only ``data``, ``magic`` and `crc_is_right`."""

    __slots__ = ("_header", "data", "magic")

    data: memoryview
    magic: int
    _header: BatchHeader | None

    @property
    def header(self) -> BatchHeader:
        """The batch's own fields.

        Raises:
            CodecError: the batch is older than magic 2.
        """
        if self._header is None:
            raise CodecError(f"unsupported magic {self.magic} of a record batch, expected {NEWEST_MAGIC}")
        return self._header

    def crc_is_right(self) -> bool:
        """Whether the checksum is right: CRC-32C from the attributes on, before magic 2 CRC-32."""
        if self._header is None:
            return zlib.crc32(self.data[OLD_CRC_AT + 4 :]) == int.from_bytes(self.data[OLD_CRC_AT:][:4], "big")
        return crc32c(self.data[ATTRIBUTES_AT:]) == self._header.crc

    def records(self, limit: int = MAX_RECORDS_BYTES, max_records: int = MAX_RECORDS, as_sent: bool = False) -> Records:
        """Decompress the records and check every length in them. The checksum is not checked.

        Args:
            limit: bytes that they may have when they are decompressed.
            max_records: how many they may be.
            as_sent: whether a producer sends them. Then LogAppendTime, if it is set, is not the broker's: it clears
                the bit, and consumers read the timestamps of the records.

        Raises:
            BatchTooLargeError: they have more than ``limit`` bytes, or are more than ``max_records``.
            CodecError: they are not what the header announces, or the batch is older than magic 2.
        """
        header = self._header or self.header
        attributes = header.attributes
        if header.count > max_records:  # nor can it have more: `Records` compares them with the header
            raise BatchTooLargeError(f"the batch has {header.count} records, more than {max_records}")
        payload = decompress(attributes & CODEC_BITS, self.data[BATCH_HEADER_SIZE:], limit)
        appended = header.max_timestamp if attributes & LOG_APPEND_TIME and not as_sent else None
        return Records(payload, header.count, header.base_timestamp, appended)

    def __repr__(self) -> str:
        return f"Batch({self._header or f'magic={self.magic}, {len(self.data)} bytes'})"


def batches(data: bytes | memoryview, *, may_end_early: bool = False) -> list[Batch]:
    """The batches of a records field, in order.

    A broker truncates a Fetch response at the requested size: ``may_end_early`` ignores an incomplete last batch.

    Raises:
        CodecError: an invalid length or magic.
        TruncatedError: the last batch is incomplete.
    """
    view = memoryview(data)
    found = []
    at, end = 0, len(view)
    while at < end:
        header = header_at(view, at)
        if header is not None:
            magic, size, min_size = _MAGIC, _LENGTH_FROM + header.length, _HEADER_SIZE
        else:
            magic, size = _measure(view, at, end)
            min_size = MIN_BATCH_BYTES[magic]
        if size < min_size:
            raise CodecError(f"a batch of magic {magic} has {size} bytes, expected at least {min_size}")
        if size > end - at:
            if may_end_early:
                break
            raise TruncatedError(f"a record batch has {size} bytes, {end - at} left")
        found.append(_batch(view if size == end else view[at : at + size], magic, header))
        at += size
    return found


def _batch(data: memoryview, magic: int, header: BatchHeader | None) -> Batch:
    """A batch, created without a constructor, which would take longer than reading the header."""
    batch = Batch.__new__(Batch)
    batch.data = data
    batch.magic = magic
    batch._header = header
    return batch


def _measure(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """Magic and size of an old or incomplete batch. Without the byte of the magic, the size is that of a header."""
    if end - at <= MAGIC_AT:
        return NEWEST_MAGIC, BATCH_HEADER_SIZE
    magic = view[at + MAGIC_AT]
    if magic not in MIN_BATCH_BYTES:
        raise CodecError(f"unknown magic {magic} of a record batch")
    return magic, LENGTH_FROM + LENGTH.unpack_from(view, at + LENGTH_AT)[0]


def header_at(view: memoryview, at: int) -> BatchHeader | None:
    """The header of the batch at ``at``; None if the batch is older than magic 2, or its header is incomplete.

    Raises:
        BufferError: the view is not contiguous, or not of bytes.
    """
    if cython.compiled:
        buffer = PyMemoryView_GET_BUFFER(view)
        if buffer.itemsize != 1 or not PyBuffer_IsContiguous(buffer, b"C"):
            raise BufferError("expected contiguous bytes")
        if at < 0 or at > buffer.len - _HEADER_SIZE:
            return None
        data = cython.cast(cython.pointer(cython.uchar), buffer.buf) + at
        return _header(data) if data[_MAGIC_AT] == _MAGIC else None
    if at > len(view) - _HEADER_SIZE or view[at + _MAGIC_AT] != _MAGIC:
        return None
    header = BatchHeader.__new__(BatchHeader)
    (
        header.base_offset, header.length, header.leader_epoch, header.magic, header.crc, header.attributes,
        header.last_offset_delta, header.base_timestamp, header.max_timestamp, header.producer_id,
        header.producer_epoch, header.base_sequence, header.count,
    ) = HEADER.unpack_from(view, at)  # fmt: skip
    return header


if cython.compiled:

    def _header(data: Any) -> BatchHeader:
        header = BatchHeader.__new__(BatchHeader)
        header.base_offset = _integer(data, 8)
        header.length = _integer(data + 8, 4)
        header.leader_epoch = _integer(data + 12, 4)
        header.magic = _MAGIC
        header.crc = _integer(data + 17, 4)
        header.attributes = _integer(data + 21, 2)
        header.last_offset_delta = _integer(data + 23, 4)
        header.base_timestamp = _integer(data + 27, 8)
        header.max_timestamp = _integer(data + 35, 8)
        header.producer_id = _integer(data + 43, 8)
        header.producer_epoch = _integer(data + 51, 2)
        header.base_sequence = _integer(data + 53, 4)
        header.count = _integer(data + 57, 4)
        return header

    def _integer(data: Any, size: int) -> int:
        """A signed integer; an unsigned field keeps its bits."""
        value: int = data[0]
        if value > 127:
            value -= 256
        for index in range(1, size):
            value = value * 256 + data[index]
        return value
