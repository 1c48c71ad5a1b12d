"""A segment: a part of a large message, as li-apache-kafka-clients defines it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_sidecar.codec.errors import CodecError

ID_SIZE = 16
NO_MESSAGE = bytes(ID_SIZE)  # the id in headers of messages that are already assembled
UNKNOWN_SIZE = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of ``count``; ``payload`` is its part of the value, in whatever record the segment came."""

    message_id: bytes  # 16 bytes, most significant half first, as `uuid.UUID.bytes`
    number: int  # from 0
    count: int
    size: int  # of the whole value in bytes; -1: not known
    payload: bytes | memoryview
    crc: int | None = field(default=None, compare=False)  # CRC-32C of the payload, if it is known

    def check(self) -> None:
        """Raises CodecError where li's `sanityCheck` fails, or where a segment of several is empty."""
        if len(self.message_id) != ID_SIZE:
            raise CodecError(f"the id of a large message has {len(self.message_id)} bytes, expected {ID_SIZE}")
        if not 0 <= self.number < self.count:
            raise CodecError(f"segment {self.number} of {self.count} does not exist")
        if not 0 <= len(self.payload) <= self.size:
            raise CodecError(f"a segment has {len(self.payload)} bytes of a message of {self.size}")
        if not self.payload and self.count > 1:
            raise CodecError(f"segment {self.number} of {self.count} is empty")
