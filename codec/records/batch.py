"""A records field cut into batches, and what a batch says about itself before it is opened."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from crc32c import crc32c

from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.records.compression import decompress
from kafka_sidecar.codec.records.records import Records
from kafka_sidecar.codec.wire import LENGTH

# baseOffset: int64
# batchLength: int32          counted from here
# partitionLeaderEpoch: int32
# magic: int8
# crc: uint32                 of all that follows
# attributes: int16
# lastOffsetDelta: int32
# baseTimestamp: int64
# maxTimestamp: int64
# producerId: int64
# producerEpoch: int16
# baseSequence: int32
# records: int32 count, then the records, compressed as one where they are
HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_HEADER_SIZE = HEADER.size  # bytes
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, COUNT_AT = 8, 16, 17, 21, 57
OLD_CRC_AT = 12  # magic 0 and 1
LENGTH_FROM = 12  # batchLength counts what comes after itself
NEWEST_MAGIC = 2
# offset, size, crc, magic, attributes, key and value of a message of magic 0; magic 1 has a timestamp
MIN_BATCH_BYTES = {0: 26, 1: 34, 2: BATCH_HEADER_SIZE}
CODEC_BITS = 0x07
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
MAX_RECORDS_BYTES = 100 << 20


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records (magic 2). Times are milliseconds since 1970.

    A tuple, because a frozen dataclass of so many fields takes 2 µs to make, as long as CRC-32C of 16 KB.
    """

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
    count: int  # type: ignore[assignment] # of records; tuple has a method of that name

    @property
    def codec(self) -> int:
        """0 to 4 as in `Codec`; more is no codec."""
        return self.attributes & CODEC_BITS

    @property
    def has_log_append_time(self) -> bool:
        """The broker has set the time of all records: it is ``max_timestamp`` (KIP-32)."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Holds a transaction's or the broker's own mark, not records of an application."""
        return bool(self.attributes & CONTROL)


class Batch:
    """One batch, unopened. Of those older than magic 2 only ``data``, ``magic`` and `crc_is_right` are to be had."""

    __slots__ = ("_header", "data", "magic")

    def __init__(self, data: memoryview, magic: int, header: BatchHeader | None) -> None:
        self.data = data
        self.magic = magic
        self._header = header

    @property
    def header(self) -> BatchHeader:
        """The batch's own fields.

        Raises:
            CodecError: the batch is older than magic 2.
        """
        if self._header is None:
            raise CodecError(f"a batch of magic {self.magic} is not looked into")
        return self._header

    def crc_is_right(self) -> bool:
        """Whether the checksum, CRC-32C from the attributes on (before magic 2: CRC-32), fits the bytes."""
        if self._header is None:
            return zlib.crc32(self.data[OLD_CRC_AT + 4 :]) == int.from_bytes(self.data[OLD_CRC_AT:][:4], "big")
        return crc32c(self.data[ATTRIBUTES_AT:]) == self._header.crc

    def records(self, limit: int = MAX_RECORDS_BYTES) -> Records:
        """Inflate the records and check every length in them. The checksum is not looked at.

        Raises:
            BatchTooLargeError: they are more than ``limit`` bytes.
            CodecError: what is there is not what the header announces, or the batch is older than magic 2.
        """
        header = self._header or self.header
        attributes = header.attributes
        payload = decompress(attributes & CODEC_BITS, self.data[BATCH_HEADER_SIZE:], limit)
        appended = header.max_timestamp if attributes & LOG_APPEND_TIME else None
        return Records(payload, header.count, header.base_timestamp, appended)

    def __repr__(self) -> str:
        return f"Batch({self._header or f'magic={self.magic}, {len(self.data)} bytes'})"


def batches(data: bytes | memoryview, *, may_end_early: bool = False) -> list[Batch]:
    """The batches of a records field, in order.

    A broker cuts what it sends at the size that a Fetch asked for: with ``may_end_early`` a last batch that is not
    all there is left out.

    Raises:
        CodecError: a length cannot be, or there is no such format.
        TruncatedError: the last batch is not all there.
    """
    view = memoryview(data)
    found = []
    at, end = 0, len(view)
    while at < end:
        header = None
        if end - at >= BATCH_HEADER_SIZE and view[at + MAGIC_AT] == NEWEST_MAGIC:
            header = BatchHeader._make(HEADER.unpack_from(view, at))
            magic, size = NEWEST_MAGIC, LENGTH_FROM + header.length
        else:
            magic, size = _measure(view, at, end)
        if size < MIN_BATCH_BYTES[magic]:
            raise CodecError(f"a batch of magic {magic} has {size} bytes, at least {MIN_BATCH_BYTES[magic]} are needed")
        if size > end - at:
            if may_end_early:
                break
            raise TruncatedError(f"a record batch has {size} bytes, {end - at} left")
        found.append(Batch(view[at : at + size], magic, header))
        at += size
    return found


def _measure(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """Magic and bytes of a batch that is older or cut off; more bytes than there are where the magic is."""
    if end - at <= MAGIC_AT:
        return NEWEST_MAGIC, BATCH_HEADER_SIZE
    magic = view[at + MAGIC_AT]
    if magic not in MIN_BATCH_BYTES:
        raise CodecError(f"a record batch has magic {magic}")
    return magic, LENGTH_FROM + LENGTH.unpack_from(view, at + LENGTH_AT)[0]
