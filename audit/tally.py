"""What is counted of the batches of one interval that have the same key, and the bound on the number of keys.

This file runs as it is and compiled (tally.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from kafka_sidecar.audit.sketch import Sketch

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.ranges import OffsetRanges
    from kafka_sidecar.audit.sketch import bucket_of
    from kafka_sidecar.codec.int64_list import Int64List
else:
    from cython.cimports.kafka_sidecar.audit.ranges import OffsetRanges  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.audit.sketch import bucket_of  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.int64_list import Int64List  # type: ignore[no-redef]

MAX_RANGES = 10_000  # of one key: an event of at most some 250 KB
MAX_RANGES_IN_ALL = 500_000  # of an interval: 16 bytes each
OTHER = "(other)"
LATE = 1 << 62  # later than any event
_LATE = LATE  # for C


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
