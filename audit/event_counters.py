"""Counts batches for the default auditor: each in the interval and bucket of its event time.

The usual batch is of the same bucket as the one before: then its tally is already there. This file runs as it is and
compiled (event_counters.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from kafka_sidecar.audit.abstract import Intervals
from kafka_sidecar.audit.contract import NO_TIMESTAMP, AuditedClient, LargeMessages, Result
from kafka_sidecar.audit.tally import MAX_RANGES

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import BatchCount, FetchCounter, ProduceCounter
    from kafka_sidecar.audit.memory import Acked, AckMemory, Delivered, Recent
    from kafka_sidecar.audit.tally import OffsetRanges, Room, Tallies, Tally
else:
    from cython.cimports.kafka_sidecar.audit.counters import (  # type: ignore[no-redef]
        BatchCount,
        FetchCounter,
        ProduceCounter,
    )
    from cython.cimports.kafka_sidecar.audit.memory import (  # type: ignore[no-redef]
        Acked,
        AckMemory,
        Delivered,
        Recent,
    )
    from cython.cimports.kafka_sidecar.audit.tally import (  # type: ignore[no-redef]
        OffsetRanges,
        Room,
        Tallies,
        Tally,
    )

MAX_ACKS = 30_000  # batches, of all partitions: a client repeats one within some minutes
MAX_READERS = 10_000  # of a partition each
MAX_COMMITS = 10_000
ACKED, UNCONFIRMED, REJECTED, UNKNOWN = Result.ACKED, Result.UNCONFIRMED, Result.REJECTED, Result.UNKNOWN
MAX_OFFSET = 1 << 62
_MAX_OFFSET, _NO_TIMESTAMP = MAX_OFFSET, NO_TIMESTAMP  # for C


class Memory:
    """Remembers what was acknowledged, delivered and committed before."""

    __slots__ = ("acks", "commits", "readers")

    def __init__(self) -> None:
        self.acks = AckMemory(MAX_ACKS)
        self.readers = Recent(MAX_READERS)  # Delivered by client (without a group), group, topic, partition
        self.commits = Recent(MAX_COMMITS)  # offsets by group, topic, partition

    def delivered(self, client: AuditedClient, group: str | None, topic: str, partition: int) -> Delivered:
        """What a reader was sent of a partition before: the group, or without one the client on its host."""
        reader = (None if group is not None else f"{client.key} {client.host}", group, topic, partition)
        seen: Delivered | None = self.readers.get(reader)
        if seen is None:
            seen = Delivered()
            self.readers.put(reader, seen)
        return seen


class EventStats:
    """Counts of one interval. No lock of its own: that of `EventCounting` is held."""

    __slots__ = ("acked", "bucket_ms", "committed", "copies", "delivered", "failed", "room", "shared", "unknown")

    def __init__(self, bucket_ms: int, max_keys: int) -> None:
        self.bucket_ms = bucket_ms
        self.room = Room(max_keys)
        self.acked = Tallies(self.room)
        self.copies: dict[Tally, tuple[OffsetRanges, OffsetRanges]] = {}  # of tallies of `acked`: certain, possible
        self.failed = Tallies(self.room)
        self.unknown = Tallies(self.room)
        self.delivered = Tallies(self.room)
        self.shared = Tallies(self.room)
        self.committed = Tallies(self.room)

    def close(self) -> None:
        """Nothing to wait for."""

    def produced(
        self, client: AuditedClient, topic: str, partition: int, event_time: int, result: object
    ) -> Tally | None:
        """Where a batch with this result is counted; None: it is lost."""
        is_success = result is ACKED or result is UNCONFIRMED
        tallies = self.acked if is_success else self.unknown if result is UNKNOWN else self.failed
        return self._tally(tallies, client, None, topic, partition, event_time)

    def read(
        self, client: AuditedClient, group: str | None, topic: str, partition: int, event_time: int
    ) -> Tally | None:
        """Where a batch that was delivered is counted; None: it is lost."""
        return self._tally(self.delivered, client, group, topic, partition, event_time)

    def _tally(
        self, tallies: Tallies, client: AuditedClient, group: str | None, topic: str, partition: int, event_time: int
    ) -> Tally | None:
        bucket = event_time - event_time % self.bucket_ms
        key = (client.key, group, topic, partition, bucket)
        tally = tallies.by_key.get(key)
        if tally is None:
            tally = tallies.new(key, client.client_id, client.principal, group, topic, partition, bucket, event_time)
        return tally

    def acquired(self, client: AuditedClient, group: str, topic: str, partition: int, event_time: int) -> Tally | None:
        """Where records that a member of a share group has acquired are counted; None: they are lost."""
        return self._tally(self.shared, client, group, topic, partition, event_time)

    def add_duplicated(
        self, client: AuditedClient, topic: str, partition: int, event_time: int, batch: BatchCount, is_certain: bool
    ) -> None:
        """The batch was counted before, in this interval or in an earlier one."""
        tally = self._tally(self.acked, client, None, topic, partition, event_time)
        if tally is None:
            return
        tally.add(0, 0, event_time)
        certain, possible = self.copies.setdefault(tally, (OffsetRanges(), OffsetRanges()))
        ranges = certain if is_certain else possible
        ranges.add(batch.first_offset, batch.last_offset, len(ranges) < MAX_RANGES)

    def add_done(
        self, client: AuditedClient, group: str, topic: str, partition: int, first: int, last: int, event_time: int
    ) -> None:
        """Offsets that a group has done with: committed, or accepted."""
        tally = self._tally(self.committed, client, group, topic, partition, event_time)
        if tally is not None:
            tally.add_offsets(first, last)
            tally.untimed += last - first + 1
            tally.add(last - first + 1, 0, event_time)


class EventCounting:
    """Shared by the counters of all connections.

    Batches are counted in one thread, and an interval ends in another: both hold the lock. To count, it is taken once
    for many batches, by whoever calls the counters; to end an interval, only for as long as it takes to replace it.
    """

    __slots__ = ("_intervals", "_memory", "clock", "interval", "lock")

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock  # ms since 1970
        self.lock = RLock()
        self._memory = Memory()
        self._intervals: Intervals | None = None  # None: nothing is counted
        self.interval = 0  # changes with the intervals: what counters have found is no longer right then

    def use(self, intervals: Intervals | None) -> None:
        """From now on, count in these; nothing more is counted in those before when this returns."""
        with self.lock:
            self._intervals = intervals
            self.interval += 1

    def stats_for(self, event_time: int) -> EventStats | None:
        """Where batches of this event time are counted; None: nowhere."""
        if self._intervals is None:
            return None
        current, following, next_tick = self._intervals
        found: EventStats = current if event_time < next_tick else following
        return found

    def event_time(self, timestamp: int) -> int:
        """The time by which a batch is counted."""
        return timestamp if timestamp != _NO_TIMESTAMP else self.clock()

    def times(self, event_time: int, bucket_ms: int) -> tuple[int, int]:
        """From when and until when event times are counted where this one is: in its bucket and interval."""
        begin = event_time - event_time % bucket_ms
        end = begin + bucket_ms
        next_tick = end if self._intervals is None else self._intervals[2]
        return (begin, min(end, next_tick)) if event_time < next_tick else (max(begin, next_tick), end)

    def committed(self, client: AuditedClient, group: str, topic: str, partition: int, offset: int) -> None:
        """The first commit that is seen says where the group is, not how far it has come."""
        before = self._memory.commits.put((group, topic, partition), offset)
        if before is not None and offset > before:
            self.accepted(client, group, topic, partition, before, offset - 1)

    def duplicated(
        self, client: AuditedClient, topic: str, partition: int, batch: BatchCount, is_certain: bool
    ) -> None:
        with self.lock:
            event_time = self.event_time(batch.timestamp)
            stats = self.stats_for(event_time)
            if stats is not None:
                stats.add_duplicated(client, topic, partition, event_time, batch, is_certain)

    def accepted(self, client: AuditedClient, group: str, topic: str, partition: int, first: int, last: int) -> None:
        """Offsets that a group has done with: each record of a share group is accepted once."""
        with self.lock:
            event_time = self.clock()
            stats = self.stats_for(event_time)
            if stats is not None:
                stats.add_done(client, group, topic, partition, first, last, event_time)

    def acquired(self, client: AuditedClient, group: str, topic: str, partition: int, batch: BatchCount) -> None:
        """Of a share group the broker says how often it has given out a record, to any member."""
        with self.lock:
            event_time = self.event_time(batch.timestamp)
            stats = self.stats_for(event_time)
            tally = None if stats is None else stats.acquired(client, group, topic, partition, event_time)
            if tally is None:
                return
            tally.add_offsets(batch.first_offset, batch.last_offset)
            count, hidden = batch.count, batch.hidden
            if batch.deliveries > 1:
                tally.repeated += count
                count = hidden = 0
            if batch.timestamp == _NO_TIMESTAMP:
                tally.untimed += count
            else:
                tally.add_latency(count, batch.latency_s)
            tally.hidden += hidden
            tally.add(count, batch.size, event_time)

    def count_large(self, large: LargeMessages, result: Result | None, deliveries: int) -> None:
        """Large messages of a batch that is produced (with its result), acquired (with deliveries) or delivered."""
        with self.lock:
            event_time = self.event_time(large.timestamp)
            stats = self.stats_for(event_time)
            if stats is not None:
                self._add_large(stats, large, event_time, result, deliveries)

    def _add_large(
        self, stats: EventStats, large: LargeMessages, event_time: int, result: Result | None, deliveries: int
    ) -> None:
        client, group, topic, partition = large.client, large.group, large.topic, large.partition
        if result is not None:
            tally = stats.produced(client, topic, partition, event_time, result)
        elif deliveries:
            tally = stats.acquired(client, group or "", topic, partition, event_time)
        else:
            tally = stats.read(client, group, topic, partition, event_time)
        if tally is None:
            return
        for offset, segments in large.messages:
            tally.add_large(segments, self._is_repeated(large, offset, result, deliveries))

    def _is_repeated(self, large: LargeMessages, offset: int, result: Result | None, deliveries: int) -> bool:
        """Whether a large message is among records that are counted apart, as they were counted before."""
        first, memory = large.first_offset, self._memory
        if result is not None:
            acks = memory.acks.of(large.topic, large.partition)
            return result is ACKED and 0 <= first < _MAX_OFFSET and acks.knows(first, large.timestamp)
        if deliveries:
            return deliveries > 1
        seen = memory.delivered(large.client, large.group, large.topic, large.partition)
        return seen.has(offset, first, large.last_offset, large.timestamp)


class ProducedEvents(ProduceCounter):
    """What one client sends to one partition."""

    __slots__ = (
        "_acked", "_client", "_counting", "_generation", "_interval", "_partition", "_since", "_tally", "_topic",
        "_until",
    )  # fmt: skip

    def __init__(self, counting: EventCounting, client: AuditedClient, topic: str, partition: int) -> None:
        self._counting = counting
        self._client = client
        self._topic = topic
        self._partition = partition
        self._interval = -1  # in which the tally is right
        self._tally: Tally | None = None  # of what was acknowledged
        self._since = self._until = 0  # event times of which it is right
        self._acked: Acked | None = None
        self._generation = -1

    def count(self, batch: BatchCount) -> None:
        timestamp = batch.timestamp
        is_found = self._interval == self._counting.interval and self._since <= timestamp < self._until
        if batch.result is not ACKED or not is_found:
            self._find(batch)
        elif self._tally is not None:
            self._count_acked(self._tally, batch, timestamp)

    def _find(self, batch: BatchCount) -> None:
        counting, count = self._counting, batch.count
        event_time = counting.event_time(batch.timestamp)
        stats = counting.stats_for(event_time)
        if stats is None:
            return
        tally = stats.produced(self._client, self._topic, self._partition, event_time, batch.result)
        if tally is None:
            return
        if batch.timestamp == _NO_TIMESTAMP:
            tally.untimed += count
        if batch.result is ACKED:
            if batch.timestamp >= 0:
                self._tally, self._interval = tally, counting.interval
                self._since, self._until = counting.times(event_time, stats.bucket_ms)
            self._count_acked(tally, batch, event_time)
            return
        if batch.result is UNCONFIRMED:
            tally.unconfirmed += count
        elif batch.result is REJECTED:
            tally.rejected += count
        tally.add(count, batch.size, event_time)

    def _count_acked(self, tally: Tally, batch: BatchCount, event_time: int) -> None:
        count, first = batch.count, batch.first_offset
        if 0 <= first < _MAX_OFFSET:
            tally.add_offsets(first, first + count - 1)
            acked = self._acked
            if acked is None or self._generation != self._counting._memory.acks.generation:
                acked = self._remembered()
            if acked.put(first, batch.timestamp):
                tally.repeated += count
                count = 0
        tally.add_latency(count, batch.latency_s)
        tally.add(count, batch.size, event_time)

    def _remembered(self) -> Acked:
        acks = self._counting._memory.acks
        self._acked, self._generation = acks.of(self._topic, self._partition), acks.generation
        return self._acked


class DeliveredEvents(FetchCounter):
    """What one client of a group reads of one partition."""

    __slots__ = (
        "_client", "_counting", "_generation", "_group", "_interval", "_partition", "_seen", "_since", "_tally",
        "_topic", "_until",
    )  # fmt: skip

    def __init__(
        self, counting: EventCounting, client: AuditedClient, group: str | None, topic: str, partition: int
    ) -> None:
        self._counting = counting
        self._client = client
        self._group = group
        self._topic = topic
        self._partition = partition
        self._interval = -1  # in which the tally is right
        self._tally: Tally | None = None
        self._since = self._until = 0  # event times of which it is right
        self._seen: Delivered | None = None
        self._generation = -1

    def count(self, batch: BatchCount) -> None:
        counting, timestamp = self._counting, batch.timestamp
        event_time = timestamp if timestamp != _NO_TIMESTAMP else counting.clock()
        is_found = self._interval == counting.interval and self._since <= event_time < self._until
        if not is_found and not self._find(event_time):
            return
        tally = self._tally
        assert tally is not None
        count, hidden, aborted = batch.count, batch.hidden, batch.aborted
        tally.add_offsets(batch.first_offset, batch.last_offset)
        before = self._remembered().add(batch.first_offset, batch.last_offset, timestamp)
        if before:  # of a batch that was compacted, the records in proportion to the offsets
            offsets = batch.last_offset - batch.first_offset + 1
            fresh = offsets - before
            tally.repeated += count - _share(count, fresh, offsets)
            count, hidden, aborted = (
                _share(count, fresh, offsets), _share(hidden, fresh, offsets), _share(aborted, fresh, offsets),
            )  # fmt: skip
        if timestamp == _NO_TIMESTAMP:
            tally.untimed += count
        else:
            tally.add_latency(count, batch.latency_s)
        tally.hidden += hidden
        tally.aborted += aborted
        tally.add(count, batch.size, event_time)

    def _find(self, event_time: int) -> bool:
        """Find the tally of this event time; False: the batch is not counted."""
        counting = self._counting
        stats = counting.stats_for(event_time)
        if stats is None:
            return False
        self._tally = stats.read(self._client, self._group, self._topic, self._partition, event_time)
        if self._tally is None:
            self._interval = -1
            return False
        self._interval = counting.interval
        self._since, self._until = counting.times(event_time, stats.bucket_ms)
        return True

    def _remembered(self) -> Delivered:
        memory = self._counting._memory
        if self._seen is None or self._generation != memory.readers.generation:
            self._seen = memory.delivered(self._client, self._group, self._topic, self._partition)
            self._generation = memory.readers.generation
        return self._seen


def _share(count: int, fresh: int, offsets: int) -> int:
    return _proportion(count, fresh, offsets) if count and fresh else 0


def _proportion(count: int, fresh: int, offsets: int) -> int:
    """In Python's integers: the product may have more than 64 bits."""
    return count * fresh // offsets
