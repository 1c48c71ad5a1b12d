"""The value of one large message, as its segments are put together."""

from __future__ import annotations

import mmap
from contextlib import suppress

from crc32c import crc32c

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.segment import Segment

MIN_MAPPED_BYTES = 1 << 20
# Private pages: Python's own default is a shared mapping, which costs more for each page.
MAPPING = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
LARGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux: a fault for 2 MB, not for each 4 KB


class DamagedError(CodecError):
    """The segments are not those of one message."""


def room(size: int) -> memoryview:
    """So many zero bytes. If they are many, only pages that are written take memory; a page may have 2 MB."""
    if size < MIN_MAPPED_BYTES:
        return memoryview(bytearray(size))
    pages = mmap.mmap(-1, size, **MAPPING)
    if LARGE_PAGES is not None:
        with suppress(OSError):  # the kernel has none
            pages.madvise(LARGE_PAGES)
    return memoryview(pages)


class Assembly:
    """Segments in any order become one value. Each is copied once, as soon as those before it are there.

    The memory is allocated at once, with room for what stands before and after the value in a batch; the caller has
    compared the size that the segment announces with its limit. Pages that are not written take none.
    """

    __slots__ = ("_at", "_crc", "_end", "_next", "_waiting", "buffer", "missing", "segment", "start")

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
        self.start = len(before)
        self._end = self.start + segment.size
        self.buffer = room(self._end + len(after))
        self.buffer[: self.start] = before
        self.buffer[self._end :] = after
        self.restart(segment)

    def restart(self, segment: Segment) -> None:
        """Forget all that has been added, but this segment."""
        self._at = self.start
        self.missing = set(range(segment.count))
        self._waiting: dict[int, bytes | memoryview] = {}  # until those before them are there
        self._next = 0
        self.add(segment)

    @property
    def bytes_left(self) -> int:
        """Of the value, that are not there yet."""
        return self._end - self._at - sum(map(len, self._waiting.values()))

    @property
    def value(self) -> memoryview:
        """The value. It is whole once `check` has passed."""
        return self.buffer[self.start : self._end]

    def add(self, segment: Segment) -> None:
        """Put a segment in its place. One that is there already is ignored.

        Raises:
            DamagedError: it is not of this message, or the message would be larger than it announces.
        """
        own = self.segment
        if segment.message_id != own.message_id or segment.count != own.count or segment.size != own.size:
            raise DamagedError("segments of one message differ in its id, its number of segments, or its size")
        if segment.number not in self.missing:
            return
        if len(segment.payload) > self.bytes_left:
            raise DamagedError(f"the segments of a message have more than the {own.size} bytes that it announces")
        self.missing.discard(segment.number)
        self._waiting[segment.number] = segment.payload
        while (payload := self._waiting.pop(self._next, None)) is not None:
            end = self._at + len(payload)
            self.buffer[self._at : end] = payload
            self._at = end
            self._next += 1

    def check(self) -> None:
        """Check the value, now that all segments are there. Reads all of it.

        Raises:
            DamagedError: it is smaller than it announces, or its checksum is wrong.
        """
        if self.missing or self._at != self._end:
            raise DamagedError(f"the segments of a message lack {self._end - self._at} bytes of {self.segment.size}")
        if self._crc is not None and crc32c(self.value) != self._crc:
            raise DamagedError("the checksum of an assembled message is wrong")
