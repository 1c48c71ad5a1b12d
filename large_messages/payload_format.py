"""The format of li's `DefaultSegmentSerializer`: 33 bytes before the payload, in the value of the record.

    version 1 | checksum 4 | id, most significant half 8 | least significant half 8 | number 4 | count 4 | size 4

The checksum is that of the id alone: it is there to recognise a segment, not to protect its payload.
"""

from __future__ import annotations

from struct import Struct

from kafka_sidecar.large_messages.segment import Segment

OVERHEAD = 33  # bytes
VERSION = 0

_HEADER = Struct(">bIQQiii")
_UINT32, _UINT64 = (1 << 32) - 1, (1 << 64) - 1


def serialize(segment: Segment) -> bytes:
    """The value of the segment's record."""
    most, least = int.from_bytes(segment.message_id[:8], "big"), int.from_bytes(segment.message_id[8:], "big")
    head = _HEADER.pack(
        VERSION, _checksum(most, least), most, least, segment.number, segment.count, segment.size
    )  # fmt: skip
    return head + segment.payload


def deserialize(value: bytes) -> Segment | None:
    """The segment that the value of a record is, None if it is an ordinary value: li's rules.

    The version is compared as a signed byte, as li does.
    """
    if len(value) < OVERHEAD:
        return None
    version, checksum, most, least, number, count, size = _HEADER.unpack_from(value)
    is_segment = (
        version <= VERSION
        and checksum == _checksum(most, least)
        and 0 <= number < count
        and size >= len(value) - OVERHEAD
    )
    if not is_segment:
        return None
    return Segment(value[5:21], number, count, size, value[OVERHEAD:])


def _checksum(most: int, least: int) -> int:
    return (most + least & _UINT64) & _UINT32
