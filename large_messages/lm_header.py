"""The record headers of li-apache-kafka-clients, as its producers and consumers add them.

`_lm` says which segment of which message a record is:

type 1 | id, least significant half 8 | id, most significant half 8 | number 4 | count 4 | size 4 (types >= 1)

`_t` is the time when the record was created (ms since 1970), `_so` the safe offset after the record was delivered,
where it is not the offset after it: both an int64, big-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import KEEP, Header, Keep, Records, with_header_each
from kafka_sidecar.large_messages.segment import NO_MESSAGE, UNKNOWN_SIZE, Segment

KEY = b"_lm"
# With the first two the value has a header of its own, which alone counts; with V3 the value is the payload.
LEGACY, LEGACY_V2, V3 = 0, 1, 2
DELIVERED_NUMBER = -1

_IDS_AND_NUMBERS = Struct(">b8s8sii")
_SIZE = Struct(">i")
_HALF = 8
_FULL_BYTES = _IDS_AND_NUMBERS.size + _SIZE.size
TIMESTAMP, SAFE_OFFSET = b"_t", b"_so"
NO_TIMESTAMP = -1
LARGEST_POSITIVE_BYTE = 0x7F

_NUMBER_AT, _COUNT_AT, _SIZE_AT = 17, 21, 25
ONE = b"\0\0\0\1"

_INT64 = Struct(">q")
_MAX_BYTES = (1 << 31) - 1  # that a batch may have


@dataclass(frozen=True, slots=True)
class LmHeader:
    """What the value of the header says."""

    type: int
    message_id: bytes  # 16 bytes, most significant half first
    number: int
    count: int
    size: int = UNKNOWN_SIZE  # of the whole value in bytes

    @property
    def is_delivered(self) -> bool:
        """Whether the message is already assembled: the record that has this header is no segment."""
        return self.message_id == NO_MESSAGE or self.number == DELIVERED_NUMBER

    def as_delivered(self) -> LmHeader:
        """The header that li's consumers show to the application."""
        return LmHeader(self.type, NO_MESSAGE, DELIVERED_NUMBER, self.count, self.size)

    def segment(self, payload: bytes | memoryview) -> Segment:
        """The segment that the header describes."""
        return Segment(self.message_id, self.number, self.count, self.size, payload)

    def encode(self) -> bytes:
        most, least = self.message_id[:_HALF], self.message_id[_HALF:]
        fixed = _IDS_AND_NUMBERS.pack(self.type, least, most, self.number, self.count)
        return fixed if self.type == LEGACY else fixed + _SIZE.pack(self.size)

    @staticmethod
    def decode(data: bytes | None) -> LmHeader:
        """Read it as li does: a value of another length than 29 bytes has no size.

        Raises:
            CodecError: it is null or shorter than 25 bytes.
        """
        if data is None or len(data) < _IDS_AND_NUMBERS.size:
            length = "null" if data is None else f"{len(data)} bytes"
            raise CodecError(f"the header _lm is {length}, expected at least {_IDS_AND_NUMBERS.size} bytes")
        kind, least, most, number, count = _IDS_AND_NUMBERS.unpack_from(data)
        size: int = _SIZE.unpack_from(data, _IDS_AND_NUMBERS.size)[0] if len(data) == _FULL_BYTES else UNKNOWN_SIZE
        return LmHeader(kind, most + least, number, count, size)


def is_one_of_several(header: Header | None) -> bool:
    """Whether the header is that of a segment, V3, of a message that has several: without reading more of it."""
    value = header.value if header is not None else None
    if value is None or len(value) < _SIZE_AT or value[0] != V3 or value[_NUMBER_AT] > LARGEST_POSITIVE_BYTE:
        return False
    return value[1:_NUMBER_AT] != NO_MESSAGE and value[_COUNT_AT:_SIZE_AT] != ONE


def with_timestamps(records: Records, now_ms: int) -> Records:
    """The records, each with `_t`, but for those that have one: they keep the time of their first topic.

    Args:
        now_ms: for records without a timestamp.
    """
    times = [_INT64.pack(now_ms if time == NO_TIMESTAMP else time) for time in records.timestamps()]
    return with_header_each(records, TIMESTAMP, times, only_if_absent=True, limit=_MAX_BYTES)


def with_safe_offsets(base_offset: int, records: Records, safe_offset: Callable[[int], int]) -> Records:
    """The records of a batch, those with `_so` after which a large message is incomplete; themselves if there are none.

    Args:
        safe_offset: S of a committed offset.
    """
    following = [base_offset + record.offset_delta + 1 for record in records]
    safe = [safe_offset(offset) for offset in following]
    if safe == following:
        return records
    values: list[bytes | Keep | None] = [
        KEEP if one == offset else _INT64.pack(one) for one, offset in zip(safe, following, strict=True)
    ]
    return with_header_each(records, SAFE_OFFSET, values, limit=_MAX_BYTES)
