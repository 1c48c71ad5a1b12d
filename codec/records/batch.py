"""A records field split into batches.

This file runs as it is and compiled (batch.pxd holds the C types).
"""

from __future__ import annotations

import zlib

from crc32c import crc32c

from kafka_sidecar.codec.batch_layout import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_BITS,
    LENGTH_AT,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MIN_BATCH_BYTES,
    NEWEST_MAGIC,
)
from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.records.compression import BatchTooLargeError, decompress
from kafka_sidecar.codec.records.records import Records
from kafka_sidecar.codec.wire import LENGTH

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records.batch_header import BatchHeader, header_at
else:
    from cython.cimports.kafka_sidecar.codec.records.batch_header import (  # type: ignore[no-redef]
        BatchHeader,
        header_at,
    )

OLD_CRC_AT = 12  # magic 0 and 1
MAX_RECORDS_BYTES = 100 << 20
MAX_RECORDS = 1_000_000
_LENGTH_FROM, _MAGIC, _HEADER_SIZE = LENGTH_FROM, NEWEST_MAGIC, BATCH_HEADER_SIZE  # for C


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
