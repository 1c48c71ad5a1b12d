"""The record header `_lmr`: where the other slices of a message are, and the checksum of its value.

    version 1 | topic id 16 | crc32c of the whole value 4 | count varint | offsets varints, each minus the one before

The record that has it, the carrier, has the last slice; the offsets are those of the slices 0 to count - 1, in the same
partition. Varints are signed and zigzag coded, as in records.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.records import encode_varint

KEY = b"_lmr"
VERSION = 1
MAX_OFFSET = (1 << 63) - 1

_FIXED = Struct(">b16sI")
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class BackPointers:
    """What the value of the header says."""

    topic_id: bytes  # 16 bytes; zeros in a cluster without topic ids. Pointers into another topic are useless
    crc: int  # CRC-32C of the whole value
    offsets: tuple[int, ...]  # of the slices, in their order

    def encode(self) -> bytes:
        parts = [_FIXED.pack(VERSION, self.topic_id, self.crc), encode_varint(len(self.offsets))]
        before = 0
        for offset in self.offsets:
            parts.append(encode_varint(offset - before))
            before = offset
        return b"".join(parts)

    @staticmethod
    def decode(data: bytes | None, max_count: int) -> BackPointers:
        """Raises CodecError if the bytes are not the header, or point to more than ``max_count`` slices."""
        if data is None or len(data) < _FIXED.size:
            raise TruncatedError(f"the header _lmr is shorter than {_FIXED.size} bytes")
        version, topic_id, crc = _FIXED.unpack_from(data)
        if version != VERSION:
            raise CodecError(f"unknown version {version} of the header _lmr")
        count, at = _read_varint(data, _FIXED.size)
        if not 0 <= count <= min(max_count, len(data) - at):
            raise CodecError(f"the header _lmr announces {count} slices, at most {max_count} are allowed")
        offsets, offset = [], 0
        for _ in range(count):
            delta, at = _read_varint(data, at)
            offset += delta
            if not 0 <= offset <= MAX_OFFSET:
                raise CodecError(f"the header _lmr points to the offset {offset}")
            offsets.append(offset)
        if at != len(data):
            raise CodecError(f"the header _lmr has {len(data) - at} bytes after its last offset")
        return BackPointers(topic_id, crc, tuple(offsets))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A signed varint and the position after it."""
    value = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value >> 1 ^ -(value & 1), at + index + 1
    raise TruncatedError("the header _lmr ends inside a varint, or has one that is too long")
