"""The value of one large message, as its segments are put together."""

from __future__ import annotations

from crc32c import crc32c

from kafka_sidecar.codec.crc_parts import joined
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.large_messages.segment import Segment


class DamagedError(CodecError):
    """The segments are not those of one message."""


class Assembly:
    """Segments in any order become one value. Payloads stay where they are: copying takes longer than sending them.

    The caller has compared the size that the segment announces with its limit.
    """

    __slots__ = ("_after", "_before", "_crc", "_crcs", "_payloads", "bytes_left", "missing", "segment")

    bytes_left: int  # of the value, that are not there yet
    missing: set[int]  # numbers of segments
    _payloads: dict[int, Buffer]  # by number
    _crcs: dict[int, int | None]  # of these, where they are known

    def __init__(self, segment: Segment, crc: int | None = None, before: bytes = b"", after: bytes = b"") -> None:
        """
        Args:
            segment: any one of the message.
            crc: CRC-32C of the whole value; None: not known.
            before: what stands before the value.
            after: what stands after it.
        """
        self.segment = segment
        self._crc = crc
        self._before = before
        self._after = after
        self.restart(segment)

    def __len__(self) -> int:
        """Bytes, once it is whole."""
        return len(self._before) + self.segment.size + len(self._after)

    def restart(self, segment: Segment) -> None:
        """Forget all that has been added, but this segment."""
        self.missing = set(range(segment.count))
        self.bytes_left = segment.size
        self._payloads, self._crcs = {}, {}
        self.add(segment)

    @property
    def pieces(self) -> list[Buffer]:
        """The value, in pieces that follow each other, with what stands before and after it.

        It is whole once `check` has passed.
        """
        return [self._before, *(self._payloads[number] for number in sorted(self._payloads)), self._after]

    def add(self, segment: Segment) -> None:
        """Put a segment in its place. One that is there already is ignored.

        Raises:
            DamagedError: it is not of this message, or the message would be larger than it announces.
        """
        if segment.number not in self.missing:
            self._checked(segment, len(segment.payload))
            return
        size = self._checked(segment, self.bytes_left)
        self.missing.discard(segment.number)
        self._payloads[segment.number], self._crcs[segment.number] = segment.payload, segment.crc
        self.bytes_left -= size

    def _checked(self, segment: Segment, bytes_left: int) -> int:
        """The size of a segment that may be added where this much of the value is missing."""
        own, size = self.segment, len(segment.payload)
        if segment.message_id != own.message_id or segment.count != own.count or segment.size != own.size:
            raise DamagedError("segments of one message differ in its id, its number of segments, or its size")
        if size > bytes_left:
            raise DamagedError(f"the segments of a message have more than the {own.size} bytes that it announces")
        return size

    def check(self) -> None:
        """Check the value, now that all segments are there. Reads what has no checksum of its own.

        Raises:
            DamagedError: it is smaller than it announces, or its checksum is wrong.
        """
        if self.missing or self.bytes_left:
            raise DamagedError(f"the segments of a message lack {self.bytes_left} bytes of {self.segment.size}")
        if self._crc is not None and self._checksum() != self._crc:
            raise DamagedError("the checksum of an assembled message is wrong")

    @property
    def bytes_added(self) -> int:
        """How much of the value is there, without the segment that it began with."""
        return self.segment.size - self.bytes_left - len(self.segment.payload)

    @property
    def bytes_to_sum(self) -> int:
        """How much `check` has to read: the segments without checksums of their own."""
        return sum(len(self._payloads[number]) for number, crc in self._crcs.items() if crc is None)

    @property
    def pieces_crc(self) -> int | None:
        """CRC-32C of `pieces`, once it is checked; None: they would have to be read."""
        before = crc32c(self._before)
        if self._crc is not None:
            value = joined(before, self._crc, self.segment.size)
        elif not self.bytes_to_sum:
            value = self._checksum(before)
        else:
            return None
        return crc32c(self._after, value)

    def _checksum(self, before: int = 0) -> int:
        """CRC-32C of the value, after bytes whose checksum is ``before``."""
        for number in sorted(self._payloads):
            before = checksum_after(before, self._payloads[number], self._crcs[number])
        return before


def checksum_after(before: int, payload: Buffer, crc: int | None) -> int:
    """CRC-32C with a payload after bytes whose checksum is ``before``; it is read only if its own is not known."""
    return crc32c(payload, before) if crc is None else joined(before, crc, len(payload))


def checksum(pieces: list[Buffer], before: int = 0) -> int:
    """CRC-32C of all pieces, after bytes whose checksum is ``before``."""
    for piece in pieces:
        before = crc32c(piece, before)
    return before
