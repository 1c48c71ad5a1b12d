"""Sums of the batches of one interval that have the same key, with their offsets and latencies; and the bound on keys.

Latencies are counts in log buckets: sketches are merged by adding the counts, and the result is exact. Bucket i holds
latencies above ``BASE**(i-1)`` and at most ``BASE**i`` ms; bucket 0 all of at most 1 ms. So a percentile is known to
about 5 %.

This file runs as it is and compiled (tally.pxd holds the C types).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from math import log

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from math import ceil
    from math import log as ln

    from kafka_sidecar.audit.memory import Int64List
else:
    from cython.cimports.kafka_sidecar.audit.memory import Int64List  # type: ignore[no-redef]
    from cython.cimports.libc.math import ceil  # type: ignore[no-redef]
    from cython.cimports.libc.math import log as ln  # type: ignore[no-redef]

MAX_RANGES = 10_000  # of one key: an event of at most some 250 KB
MAX_RANGES_IN_ALL = 500_000  # of an interval: 16 bytes each
OTHER = "(other)"
LATE = 1 << 62  # later than any event
_LATE = LATE  # for C
NONE = -2  # no offset, nor the one before an offset
_NONE = NONE  # for C
BASE = 1.1
_BUCKETS_PER_E = 1 / log(BASE)
MAX_INDEX = 400  # a thousand years
_MAX_INDEX = MAX_INDEX  # for C

Sketch = dict[int, int]  # index of a bucket -> number of records


class OffsetRanges:
    """Ranges of offsets. In most cases the next batch extends the last range."""

    __slots__ = ("_begin", "_end", "_firsts", "_lasts", "is_exact")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        self._begin = self._end = _NONE  # of the last range: its end is right there, in the array maybe not yet
        self.is_exact = True
        """False: where there was no room for another range, two were joined, with the offsets between them."""

    def extend(self, first: int, last: int) -> bool:
        """Add offsets that follow the last range, or that it has; False, and nothing is added, if not."""
        if first != self._end + 1 or self._end == _NONE:
            return self._begin <= first and last <= self._end and self._end != _NONE
        self._end = last
        return True

    def add(self, first: int, last: int, has_room: bool = True) -> int:
        """Add the offsets from ``first`` to ``last``; how many ranges more there are now.

        Without room for another range, the nearest one is extended to them.
        """
        if self.extend(first, last):
            return 0
        self._note_end()
        added = self._insert(first, last, has_room)
        self._begin, self._end = self._firsts[len(self._firsts) - 1], self._lasts[len(self._lasts) - 1]
        return added

    def _note_end(self) -> None:
        if self._lasts:
            self._lasts[len(self._lasts) - 1] = self._end

    def _insert(self, first: int, last: int, has_room: bool) -> int:
        firsts, lasts = self._firsts, self._lasts
        begin = bisect_left(lasts, first - 1)  # the first range that they touch
        end = bisect_right(firsts, last + 1)  # after the last one
        if begin < end:
            firsts[begin] = min(first, firsts[begin])
            lasts[begin] = max(last, lasts[end - 1])
            del firsts[begin + 1 : end]
            del lasts[begin + 1 : end]
            return begin + 1 - end
        if has_room or not firsts:
            firsts.insert(begin, first)
            lasts.insert(begin, last)
            return 1
        self.is_exact = False
        if begin == len(firsts) or (begin and first - lasts[begin - 1] <= firsts[begin] - last):
            lasts[begin - 1] = last
        else:
            firsts[begin] = first
        return 0

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def first(self) -> int | None:
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        return self._end if self._lasts else None

    def pairs(self) -> list[tuple[int, int]]:
        """First and last offset of each range."""
        self._note_end()
        return list(zip(self._firsts, self._lasts, strict=True))


class Tally:
    """Sums of one key. ``count`` is of records that are not among ``repeated``, ``hidden`` and ``aborted``, and so are
    ``large`` and ``segments``."""

    __slots__ = (
        "_latencies", "_room", "aborted", "bucket_start", "bytes", "client_id", "count", "group", "hidden", "large",
        "max_ts", "min_ts", "offsets", "partition", "principal", "rejected", "repeated", "repeated_large",
        "repeated_segments", "segments", "topic", "unconfirmed", "untimed",
    )  # fmt: skip

    def __init__(
        self,
        client_id: str | None,
        principal: str | None,
        group: str | None,
        topic: str,
        partition: int,
        bucket: int,
        room: Room | None = None,
    ) -> None:
        self._room = room
        self.client_id = client_id
        self.principal = principal
        self.group = group
        self.topic = topic
        self.partition = partition
        self.bucket_start = bucket
        self.count = self.bytes = self.untimed = 0
        self.repeated = self.rejected = self.unconfirmed = self.hidden = self.aborted = 0
        self.large = self.segments = self.repeated_large = self.repeated_segments = 0
        self.min_ts = _LATE
        self.max_ts = -_LATE
        self.offsets = OffsetRanges()
        self._latencies = Int64List()  # records by bucket

    def add(self, count: int, size: int, event_time: int) -> None:
        self.count += count
        self.bytes += size
        if event_time < self.min_ts:
            self.min_ts = event_time
        if event_time > self.max_ts:
            self.max_ts = event_time

    def add_latency(self, count: int, latency_s: float) -> None:
        if count:
            self._latencies.add(bucket_of(latency_s * 1000), count)

    @property
    def latency(self) -> Sketch:
        return {bucket: count for bucket, count in enumerate(self._latencies) if count}

    def add_offsets(self, first: int, last: int) -> None:
        if not self.offsets.extend(first, last) and self._room is not None:
            self._room.ranges -= self.offsets.add(first, last, self._room.ranges > 0 and len(self.offsets) < MAX_RANGES)

    def add_large(self, segments: int, is_repeated: bool) -> None:
        """Add one message."""
        if is_repeated:
            self.repeated_large += 1
            self.repeated_segments += segments
        else:
            self.large += 1
            self.segments += segments

    def add_all(self, other: Tally) -> None:
        """What the other one has of counts, bytes and times."""
        self.large += other.large + other.repeated_large
        self.segments += other.segments + other.repeated_segments
        self.count += other.count + other.repeated
        self.bytes += other.bytes
        self.untimed += other.untimed
        self.min_ts = min(self.min_ts, other.min_ts)
        self.max_ts = max(self.max_ts, other.max_ts)


class Tallies:
    """The tallies of one tier, by key."""

    __slots__ = ("_room", "by_key")

    def __init__(self, room: Room) -> None:
        self.by_key: dict[Hashable, Tally] = {}
        self._room = room

    def values(self) -> Iterable[Tally]:
        return self.by_key.values()

    def new(
        self,
        key: Hashable,
        client_id: str | None,
        principal: str | None,
        group: str | None,
        topic: str,
        partition: int,
        bucket: int,
        event_time: int,
    ) -> Tally | None:
        """A tally for a new key. Above the maximum it is one of (other) clients; far above, None: it is lost."""
        room = self._room
        if room.keys <= 0:
            client_id, principal = OTHER, None
            key = (OTHER, group, topic, partition, bucket)
            if (other := self.by_key.get(key)) is not None:
                return other
            if room.keys <= -room.max_keys:
                room.lose(event_time)
                return None
        room.keys -= 1
        tally = self.by_key[key] = Tally(client_id, principal, group, topic, partition, bucket, room)
        return tally


class Room:
    """What an interval still has room for, and what it had none for."""

    __slots__ = ("keys", "lost_max_ts", "lost_min_ts", "max_keys", "ranges")

    def __init__(self, max_keys: int) -> None:
        self.keys = self.max_keys = max_keys
        self.ranges = MAX_RANGES_IN_ALL
        self.lost_min_ts: int | None = None  # event times of what was not counted
        self.lost_max_ts: int | None = None

    def lose(self, event_time: int) -> None:
        self.lost_min_ts = event_time if self.lost_min_ts is None else min(self.lost_min_ts, event_time)
        self.lost_max_ts = event_time if self.lost_max_ts is None else max(self.lost_max_ts, event_time)


def attempts(outcomes: Iterable[Tallies]) -> Iterator[Tally]:
    """What was sent: the sum over all outcomes, by key."""
    sums: dict[Hashable, Tally] = {}
    for tallies in outcomes:
        for key, one in tallies.by_key.items():
            if (total := sums.get(key)) is None:
                total = sums[key] = Tally(
                    one.client_id, one.principal, None, one.topic, one.partition, one.bucket_start
                )
            total.add_all(one)
    yield from sums.values()


def bucket_of(latency_ms: float) -> int:
    """The bucket of a latency.

    >>> [bucket_of(ms) for ms in (-5.0, 0.2, 1.0, 1.05, 1.1, 1.2, 100.0)]
    [0, 0, 0, 1, 1, 2, 49]
    """
    if latency_ms <= 1:
        return 0
    position = ln(latency_ms) * _BUCKETS_PER_E - 1e-9
    return _MAX_INDEX if position > _MAX_INDEX else int(ceil(position))


def encode(sketch: Mapping[int, int]) -> dict[str, object] | None:
    """As it is in an event; None without latencies."""
    if not sketch:
        return None
    indexes = sorted(sketch)
    return {"base": BASE, "i": indexes, "c": [sketch[index] for index in indexes]}
