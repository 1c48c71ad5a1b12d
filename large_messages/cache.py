"""State that assembly keeps between requests: segments that were read, unfinished messages, where consumers go on.

The cache has the payloads of segments that were read recently; the log has them too. One for all connections of a
process, limited in bytes. Segments that are views of one object, such as a response of the broker, keep all of it in
memory: it counts once, as long as any of them is here.

Messages that could not be assembled before a client's deadline are kept across connections, because a client that waits
too long reconnects and asks for the same message again: the next request goes on where this one has stopped.

With `offsets: strict-li`, a consumer of li begins at the safe offset S of its group and shows nothing before the
committed offset C. A plain one begins at C: it is the records from S to C that it lacks, which `ResumePoints` has.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from kafka_sidecar.large_messages.assembly import Assembly
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.plugins.bounded import Bounded

ENTRY_BYTES = 400  # of the objects of an entry, roughly
MAX_SEGMENTS = 10_000  # so few that a full collection of garbage, which nothing interrupts, takes milliseconds
MAX_PARTITIONS = 10_000
MAX_POINTS = 16  # of a partition: about as many as it has groups


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
        while self.bytes > self._limit or len(self._segments) > MAX_SEGMENTS:
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


class Unfinished:
    """Assemblies by the record that completes them; the oldest are forgotten first."""

    def __init__(self, limit: int) -> None:
        """``limit``: bytes of all values together; one is kept whatever its size."""
        self._limit = limit
        self._assemblies: OrderedDict[Place, Assembly] = OrderedDict()
        self.bytes = 0

    def put(self, place: Place, assembly: Assembly) -> None:
        """Keep an assembly until `take` asks for it."""
        self.take(place)
        self._assemblies[place] = assembly
        self.bytes += len(assembly)
        while self.bytes > self._limit and len(self._assemblies) > 1:
            self.take(next(iter(self._assemblies)))

    def take(self, place: Place) -> Assembly | None:
        """The assembly of the message at a place, which is forgotten here."""
        found = self._assemblies.pop(place, None)
        if found is not None:
            self.bytes -= len(found)
        return found


class ResumePoints:
    """Pairs of S and C by partition; those that were noted first are forgotten first."""

    def __init__(self) -> None:
        self._points = Bounded[tuple[str, int], Bounded[int, int]](MAX_PARTITIONS)  # S by C

    def note(self, topic: str, partition: int, safe: int, committed: int) -> None:
        """A consumer has asked for what its group has committed."""
        points = self._points.pop((topic, partition), Bounded[int, int](MAX_POINTS))
        self._points[topic, partition] = points
        points[committed] = min(safe, points.pop(committed, safe))

    def before(self, topic: str, partition: int, offset: int) -> list[tuple[int, int]]:
        """The ranges from S to C, exclusive, of consumers that may have come to an offset."""
        points: Mapping[int, int] = self._points.get((topic, partition), {})
        return [(safe, committed) for committed, safe in points.items() if committed <= offset]
