"""Counts batches for the default auditor: each in the interval and bucket of its event time.

The usual batch is of the same bucket as the one before: then its tally is already there. This file runs as it is and
compiled (event_counters.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep

from kafka_sidecar.audit.abstract import Intervals
from kafka_sidecar.audit.contract import NO_TIMESTAMP, AuditedClient, LargeMessages, Result

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import FetchCounter, ProduceCounter
    from kafka_sidecar.audit.event_stats import EventStats, Memory
    from kafka_sidecar.audit.memory import Acked, Delivered
    from kafka_sidecar.audit.tally import Tally
else:
    from cython.cimports.kafka_sidecar.audit.counters import (  # type: ignore[no-redef]
        FetchCounter,
        ProduceCounter,
    )
    from cython.cimports.kafka_sidecar.audit.event_stats import (  # type: ignore[no-redef]
        EventStats,
        Memory,
    )
    from cython.cimports.kafka_sidecar.audit.memory import (  # type: ignore[no-redef]
        Acked,
        Delivered,
    )
    from cython.cimports.kafka_sidecar.audit.tally import Tally  # type: ignore[no-redef]

ACKED, UNCONFIRMED, REJECTED = Result.ACKED, Result.UNCONFIRMED, Result.REJECTED
MAX_OFFSET = 1 << 62
BUSY_S = 0.0001
_MAX_OFFSET, _NO_TIMESTAMP = MAX_OFFSET, NO_TIMESTAMP  # for C


class EventCounting:
    """What the counters of all connections share.

    Batches are counted in one thread, an interval may end in another: it replaces what is counted in, then waits for
    the batch that is being counted. A lock would cost as much as all else that is done for a batch.
    """

    __slots__ = ("_intervals", "_is_busy", "_memory", "clock", "interval")

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock  # ms since 1970
        self._is_busy = False  # with a batch
        self._memory = Memory()
        self._intervals: Intervals | None = None  # None: nothing is counted
        self.interval = 0  # changes after the intervals: what counters have found is no longer right then

    def use(self, intervals: Intervals | None) -> None:
        """From now on, count in these; nothing more is counted in those before when this returns."""
        self._intervals = intervals
        self.interval += 1
        while self._is_busy:
            sleep(BUSY_S)

    def stats_for(self, event_time: int) -> EventStats | None:
        """Where batches of this event time are counted; None: nowhere."""
        if self._intervals is None:
            return None
        current, following, next_tick = self._intervals
        found: EventStats = current if event_time < next_tick else following
        return found

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
        self,
        client: AuditedClient,
        topic: str,
        partition: int,
        timestamp: int,
        count: int,
        base_offset: int,
        is_certain: bool,
    ) -> None:
        event_time = timestamp if timestamp != _NO_TIMESTAMP else self.clock()
        self._is_busy = True
        try:
            stats = self.stats_for(event_time)
            if stats is not None:
                stats.add_duplicated(client, topic, partition, event_time, count, base_offset, is_certain)
        finally:
            self._is_busy = False

    def accepted(self, client: AuditedClient, group: str, topic: str, partition: int, first: int, last: int) -> None:
        """Offsets that a group has done with: each record of a share group is accepted once."""
        event_time = self.clock()
        self._is_busy = True
        try:
            stats = self.stats_for(event_time)
            if stats is not None:
                stats.add_done(client, group, topic, partition, first, last, event_time)
        finally:
            self._is_busy = False

    def acquired(
        self,
        client: AuditedClient,
        group: str,
        topic: str,
        partition: int,
        timestamp: int,
        count: int,
        size: int,
        first_offset: int,
        last_offset: int,
        latency_s: float,
        deliveries: int,
        hidden: int,
    ) -> None:
        """Of a share group the broker says how often it has given out a record, to any member."""
        event_time = timestamp if timestamp != _NO_TIMESTAMP else self.clock()
        self._is_busy = True
        try:
            stats = self.stats_for(event_time)
            tally = None if stats is None else stats.acquired(client, group, topic, partition, event_time)
            if tally is None:
                return
            tally.add_offsets(first_offset, last_offset)
            if deliveries > 1:
                tally.repeated += count
                count = hidden = 0
            if timestamp == _NO_TIMESTAMP:
                tally.untimed += count
            else:
                tally.add_latency(count, latency_s)
            tally.hidden += hidden
            tally.add(count, size, event_time)
        finally:
            self._is_busy = False

    def count_large(self, large: LargeMessages, result: Result | None, deliveries: int) -> None:
        """Large messages of a batch that is produced (with its result), acquired (with deliveries) or delivered."""
        event_time = large.timestamp if large.timestamp != _NO_TIMESTAMP else self.clock()
        self._is_busy = True
        try:
            stats = self.stats_for(event_time)
            if stats is not None:
                self._add_large(stats, large, event_time, result, deliveries)
        finally:
            self._is_busy = False

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

    def count(self, timestamp: int, count: int, size: int, result: object, base_offset: int, latency_s: float) -> None:
        counting = self._counting
        counting._is_busy = True
        try:
            if result is ACKED and self._interval == counting.interval and self._since <= timestamp < self._until:
                if self._tally is not None:
                    self._count_acked(self._tally, timestamp, timestamp, count, size, base_offset, latency_s)
            else:
                self._find(timestamp, count, size, result, base_offset, latency_s)
        finally:
            counting._is_busy = False

    def _find(self, timestamp: int, count: int, size: int, result: object, base_offset: int, latency_s: float) -> None:
        counting = self._counting
        event_time = timestamp if timestamp != _NO_TIMESTAMP else counting.clock()
        interval = counting.interval
        stats = counting.stats_for(event_time)
        if stats is None:
            return
        tally = stats.produced(self._client, self._topic, self._partition, event_time, result)
        if tally is None:
            return
        if timestamp == _NO_TIMESTAMP:
            tally.untimed += count
        if result is ACKED:
            if timestamp >= 0:
                self._tally, self._interval = tally, interval
                self._since, self._until = counting.times(event_time, stats.bucket_ms)
            self._count_acked(tally, timestamp, event_time, count, size, base_offset, latency_s)
            return
        if result is UNCONFIRMED:
            tally.unconfirmed += count
        elif result is REJECTED:
            tally.rejected += count
        tally.add(count, size, event_time)

    def _count_acked(
        self, tally: Tally, timestamp: int, event_time: int, count: int, size: int, base_offset: int, latency_s: float
    ) -> None:
        if 0 <= base_offset < _MAX_OFFSET:
            tally.add_offsets(base_offset, base_offset + count - 1)
            acked = self._acked
            if acked is None or self._generation != self._counting._memory.acks.generation:
                acked = self._remembered()
            if acked.put(base_offset, timestamp):
                tally.repeated += count
                count = 0
        tally.add_latency(count, latency_s)
        tally.add(count, size, event_time)

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

    def count(
        self,
        timestamp: int,
        count: int,
        size: int,
        first_offset: int,
        last_offset: int,
        latency_s: float,
        hidden: int,
        aborted: int,
    ) -> None:
        counting = self._counting
        counting._is_busy = True
        try:
            event_time = timestamp if timestamp != _NO_TIMESTAMP else counting.clock()
            is_found = self._interval == counting.interval and self._since <= event_time < self._until
            if not is_found and not self._find(event_time):
                return
            tally = self._tally
            assert tally is not None
            tally.add_offsets(first_offset, last_offset)
            before = self._remembered().add(first_offset, last_offset, timestamp)
            if before:  # of a batch that was compacted, the records in proportion to the offsets
                offsets = last_offset - first_offset + 1
                fresh = offsets - before
                tally.repeated += count - _share(count, fresh, offsets)
                count, hidden, aborted = (
                    _share(count, fresh, offsets), _share(hidden, fresh, offsets), _share(aborted, fresh, offsets),
                )  # fmt: skip
            if timestamp == _NO_TIMESTAMP:
                tally.untimed += count
            else:
                tally.add_latency(count, latency_s)
            tally.hidden += hidden
            tally.aborted += aborted
            tally.add(count, size, event_time)
        finally:
            counting._is_busy = False

    def _find(self, event_time: int) -> bool:
        """Find the tally of this event time; False: the batch is not counted."""
        counting = self._counting
        interval = counting.interval
        stats = counting.stats_for(event_time)
        if stats is None:
            return False
        self._tally = stats.read(self._client, self._group, self._topic, self._partition, event_time)
        if self._tally is None:
            self._interval = -1
            return False
        self._interval = interval
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
