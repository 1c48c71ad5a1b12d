"""What the default auditor counts in one interval, and what it remembers beyond it.

No lock of its own: that of `EventCounting` is held. This file runs as it is and compiled (event_stats.pxd
holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.audit.contract import AuditedClient, Result
from kafka_sidecar.audit.tally import MAX_RANGES

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import BatchCount
    from kafka_sidecar.audit.memory import AckMemory, Delivered, Recent
    from kafka_sidecar.audit.ranges import OffsetRanges
    from kafka_sidecar.audit.tally import Room, Tallies, Tally
else:
    from cython.cimports.kafka_sidecar.audit.counters import BatchCount  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.audit.memory import (  # type: ignore[no-redef]
        AckMemory,
        Delivered,
        Recent,
    )
    from cython.cimports.kafka_sidecar.audit.ranges import OffsetRanges  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.audit.tally import (  # type: ignore[no-redef]
        Room,
        Tallies,
        Tally,
    )

MAX_ACKS = 30_000  # batches, of all partitions: a client repeats one within some minutes
MAX_READERS = 10_000  # of a partition each
MAX_COMMITS = 10_000

ACKED, UNCONFIRMED, UNKNOWN = Result.ACKED, Result.UNCONFIRMED, Result.UNKNOWN


class Memory:
    """What was acknowledged, delivered and committed before."""

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
    """Counts of one interval."""

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
        """Nothing to do: see above."""

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
