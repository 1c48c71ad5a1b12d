"""The payloads of segments that were read recently: a cache, because the log has them too.

One for all connections of a process, limited in bytes. Segments that are views of one object, such as a response of the
broker, keep all of it in memory: it counts once, as long as any of them is here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
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
        self._views: Counter[int] = Counter()  # of each object, by its id
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
        """Keep a segment, unless it, or what it is a view of, is larger than the cache."""
        if _bytes_kept(segment.payload) + ENTRY_BYTES > self._limit:
            return
        if (before := self._segments.pop(place, None)) is not None:
            self._release(before)
        self._segments[place] = segment
        self._hold(segment)
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
            self._release(old)

    def _hold(self, segment: Segment) -> None:
        payload = segment.payload
        self.bytes += ENTRY_BYTES
        if isinstance(payload, memoryview):
            self._views[id(payload.obj)] += 1
            if self._views[id(payload.obj)] > 1:
                return
        self.bytes += _bytes_kept(payload)

    def _release(self, segment: Segment) -> None:
        payload = segment.payload
        self.bytes -= ENTRY_BYTES
        if isinstance(payload, memoryview):
            self._views[id(payload.obj)] -= 1
            if self._views[id(payload.obj)]:
                return
            del self._views[id(payload.obj)]
        self.bytes -= _bytes_kept(payload)


def _bytes_kept(payload: bytes | memoryview) -> int:
    """How much a payload keeps in memory."""
    return memoryview(payload.obj).nbytes if isinstance(payload, memoryview) else len(payload)
