"""The payloads of segments that were read recently: a cache, because the log has them too.

One for all connections of a process, limited in bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from kafka_sidecar.large_messages.segment import Segment

ENTRY_BYTES = 400  # of the objects of an entry, roughly


class Place(NamedTuple):
    """A record. The partition is that of a topic's id (16 bytes), or of its name in a cluster without ids."""

    topic: bytes | str
    partition: int
    offset: int


class SegmentCache:
    """Segments by place, least recently used ones are removed first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._segments: OrderedDict[Place, Segment] = OrderedDict()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._segments)

    def resize(self, limit: int) -> None:
        """Change the limit in bytes."""
        self._limit = limit
        self._evict()

    def put(self, place: Place, segment: Segment) -> None:
        """Keep a segment; its payload must be its own bytes, not a view of something larger."""
        size = len(segment.payload) + ENTRY_BYTES
        if size > self._limit:
            return
        before = self._segments.pop(place, None)
        if before is not None:
            self.bytes -= len(before.payload) + ENTRY_BYTES
        self._segments[place] = segment
        self.bytes += size
        self._evict()

    def get(self, place: Place) -> Segment | None:
        """The segment at a place, if it is kept."""
        found = self._segments.get(place)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._segments.move_to_end(place)
        return found

    def _evict(self) -> None:
        while self.bytes > self._limit:
            _, old = self._segments.popitem(last=False)
            self.bytes -= len(old.payload) + ENTRY_BYTES
