"""What the default auditor counts in one interval, and what it remembers beyond it.

No locks: `EventAuditor` calls one method at a time.
"""

from __future__ import annotations

from kafka_sidecar.audit.contract import NO_OFFSET, NO_TIMESTAMP, AuditedClient, Result
from kafka_sidecar.audit.memory import Delivered, Recent
from kafka_sidecar.audit.tally import Room, Tallies

MAX_ACKS = 30_000  # batches, of all partitions: a client repeats one within some minutes
MAX_READERS = 10_000  # of a partition each
MAX_COMMITS = 10_000

ACKED, UNCONFIRMED, REJECTED, UNKNOWN = Result.ACKED, Result.UNCONFIRMED, Result.REJECTED, Result.UNKNOWN


class Memory:
    """What was acknowledged, delivered and committed before."""

    __slots__ = ("acks", "commits", "readers")

    def __init__(self) -> None:
        self.acks: Recent[tuple[str, int, int], int] = Recent(MAX_ACKS)  # topic, partition, base offset -> timestamp
        self.readers: Recent[tuple[str | None, str | None, str, int], Delivered] = Recent(MAX_READERS)
        self.commits: Recent[tuple[str, str, int], int] = Recent(MAX_COMMITS)


class EventStats:
    """Counts of one interval."""

    __slots__ = ("_memory", "acked", "bucket_ms", "committed", "delivered", "failed", "room", "unknown")

    def __init__(self, memory: Memory, bucket_ms: int, max_keys: int) -> None:
        self._memory = memory
        self.bucket_ms = bucket_ms
        self.room = Room(max_keys)
        self.acked = Tallies(self.room)
        self.failed = Tallies(self.room)
        self.unknown = Tallies(self.room)
        self.delivered = Tallies(self.room)
        self.committed = Tallies(self.room)

    def close(self) -> None:
        """Nothing to wait for: see above."""

    def add_produced(
        self,
        client: AuditedClient,
        topic: str,
        partition: int,
        timestamp: int,
        event_time: int,
        count: int,
        size: int,
        result: Result,
        base_offset: int,
        latency_s: float,
    ) -> None:
        bucket = event_time - event_time % self.bucket_ms
        key = (client.key, topic, partition, bucket)
        is_success = result is ACKED or result is UNCONFIRMED
        tallies = self.acked if is_success else self.unknown if result is UNKNOWN else self.failed
        tally = tallies.by_key.get(key)
        if tally is None:
            tally = tallies.new(key, client.client_id, client.principal, None, topic, partition, bucket, event_time)
            if tally is None:
                return
        if timestamp == NO_TIMESTAMP:
            tally.untimed += count
        if is_success:
            if result is UNCONFIRMED:
                tally.unconfirmed += count
            else:
                if base_offset != NO_OFFSET:
                    tallies.add_offsets(tally, base_offset, base_offset + count - 1)
                    # A topic that was created again has the same offsets, but not the same times.
                    if self._memory.acks.put((topic, partition, base_offset), timestamp) == timestamp:
                        tally.repeated += count
                        count = 0
                tally.add_latency(count, latency_s)
        elif result is REJECTED:
            tally.rejected += count
        tally.add(count, size, event_time)

    def add_delivered(
        self,
        client: AuditedClient,
        group: str | None,
        topic: str,
        partition: int,
        timestamp: int,
        event_time: int,
        count: int,
        size: int,
        first_offset: int,
        last_offset: int,
        latency_s: float,
        hidden: int,
        aborted: int,
    ) -> None:
        bucket = event_time - event_time % self.bucket_ms
        key = (client.key, group, topic, partition, bucket)
        tallies = self.delivered
        tally = tallies.by_key.get(key)
        if tally is None:
            tally = tallies.new(key, client.client_id, client.principal, group, topic, partition, bucket, event_time)
            if tally is None:
                return
        tallies.add_offsets(tally, first_offset, last_offset)
        before = self._delivered_before(client, group, topic, partition, timestamp, first_offset, last_offset)
        if before:  # of a batch that was compacted, the records in proportion to the offsets
            offsets = last_offset - first_offset + 1
            fresh = offsets - before
            tally.repeated += count - count * fresh // offsets
            count, hidden, aborted = (one * fresh // offsets for one in (count, hidden, aborted))
        if timestamp == NO_TIMESTAMP:
            tally.untimed += count
        else:
            tally.add_latency(count, latency_s)
        tally.hidden += hidden
        tally.aborted += aborted
        tally.add(count, size, event_time)

    def _delivered_before(
        self,
        client: AuditedClient,
        group: str | None,
        topic: str,
        partition: int,
        timestamp: int,
        first: int,
        last: int,
    ) -> int:
        """How many of these offsets this reader was sent before: the group, or without one the client on its host."""
        reader = (None if group is not None else f"{client.key} {client.host}", group, topic, partition)
        seen = self._memory.readers.get(reader)
        if seen is None:
            seen = Delivered()
            self._memory.readers.put(reader, seen)
        return seen.add(first, last, timestamp)

    def add_committed(
        self, client: AuditedClient, group: str, topic: str, partition: int, offset: int, event_time: int
    ) -> None:
        """The first commit that is seen says where the group is, not how far it has come."""
        commits = self._memory.commits
        before = commits.put((group, topic, partition), offset)
        if before is None or offset <= before:
            return
        bucket = event_time - event_time % self.bucket_ms
        key = (client.key, group, topic, partition, bucket)
        tallies = self.committed
        tally = tallies.by_key.get(key) or tallies.new(
            key, client.client_id, client.principal, group, topic, partition, bucket, event_time
        )
        if tally is not None:
            tallies.add_offsets(tally, before, offset - 1)
            tally.untimed += offset - before
            tally.add(offset - before, 0, event_time)
