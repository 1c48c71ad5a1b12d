"""A value for which memory has no room: its segments are written one after the other to a store, in their order.

No more than a few segments are in memory at a time. Their checksums are computed before they are written, so that
nothing is read until the client gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crc32c import crc32c

from kafka_sidecar.codec.crc_parts import joined
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.large_messages.assembly import Assembly, DamagedError, checksum_after
from kafka_sidecar.large_messages.segment import Segment


class Store(Protocol):
    """Where one value is written to. `open` and `write` take long: they belong in a thread (`reading.Compute`)."""

    read_bytes: int  # that may be read at a time of what is written to it

    def open(self) -> bool:
        """Take the room for the value; False: there is none."""
        ...

    def write(self, at: int, data: Buffer) -> bool:
        """Put bytes in their place; False: the store has failed."""
        ...

    @property
    def value(self) -> Buffer:
        """All of it. Nothing of it is in memory before it is looked into."""
        ...


class StoreFailedError(Exception):
    """The value has to be assembled in memory."""


class StoredAssembly(Assembly):
    """An assembly that takes segments in the order of their numbers alone."""

    is_stored = True

    __slots__ = ("_stored_crc", "next_number", "store")

    next_number: int  # of the segment that comes next
    _stored_crc: int  # of what is written

    def __init__(self, segment: Segment, crc: int | None, before: bytes, after: bytes, store: Store) -> None:
        self.store = store
        super().__init__(segment, crc, before, after)

    def restart(self, segment: Segment) -> None:
        self.next_number = self._stored_crc = 0
        self.bytes_left = self.segment.size

    @property
    def value(self) -> list[Buffer]:
        return [self.store.value]

    @property
    def is_complete(self) -> bool:
        return self.next_number == self.segment.count

    @property
    def written(self) -> tuple[int, int]:
        """Bytes of the value that are in the store, and their checksum."""
        return self.segment.size - self.bytes_left, self._stored_crc

    def following(self, found: Sequence[Segment]) -> list[Segment]:
        """Those that come next without a gap.

        Raises:
            DamagedError: as `add`.
        """
        segments: list[Segment] = []
        left = self.bytes_left
        for segment in found:
            if segment.number != self.next_number + len(segments):
                break
            left -= self._checked(segment, left)
            segments.append(segment)
        return segments

    def write(self, written: tuple[int, int], segments: Sequence[Segment]) -> int | None:
        """Write segments after what is ``written``, in a thread: nothing is changed here, because no one may wait.

        Returns:
            the checksum of all that is in the store then; None: the store has failed.
        """
        at, crc = written
        for segment in segments:
            if not self.store.write(at, segment.payload):
                return None
            crc = checksum_after(crc, segment.payload, segment.crc)
            at += len(segment.payload)
        return crc

    def wrote(self, segments: Sequence[Segment], crc: int | None) -> None:
        """What `write` has done. Raises StoreFailedError."""
        if crc is None:
            raise StoreFailedError
        self.next_number += len(segments)
        self.bytes_left -= sum(len(one.payload) for one in segments)
        self._stored_crc = crc

    def check(self) -> None:
        if not self.is_complete or self.bytes_left:
            raise DamagedError(f"the segments of a message lack {self.bytes_left} bytes of {self.segment.size}")
        if self._crc is not None and self._stored_crc != self._crc:
            raise DamagedError("the checksum of an assembled message is wrong")

    @property
    def pieces_crc(self) -> int:
        """CRC-32C of `pieces`."""
        return crc32c(self._after, joined(crc32c(self._before), self._stored_crc, self.segment.size))
