"""Counters and rate-limited log lines of large messages: of those that are split, and of those that are assembled."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.reading import Report
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0  # for one kind of line and topic
NAME = "large_messages_"  # of metrics


@dataclass(slots=True)
class LargeMessageStats:
    """The counters of one process about large messages."""

    clock: Callable[[], float]  # seconds
    split: Counter[str] = field(default_factory=Counter)  # messages by result
    slices: int = 0  # that brokers have stored
    slice_bytes: int = 0  # of them, as they were sent
    stored_offsets: Counter[str] = field(default_factory=Counter)  # committed ones by the form in which they are stored
    objects: int = 0  # values that were stored as objects
    object_bytes: int = 0  # of them
    reused_slices: int = 0  # that an attempt before had stored
    orphans: int = 0  # of them, whose carrier was not stored
    lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def families(self) -> Iterator[Family]:
        yield counter(NAME + "split", "Large messages that clients have sent", self.split, "result")
        yield counter(NAME + "slices", "Slices that brokers have stored", self.slices)
        yield counter(NAME + "slice_bytes", "Bytes of these slices, as sent", self.slice_bytes)
        about = "Committed offsets of topics with large messages"
        yield counter(NAME + "offsets", about, self.stored_offsets, "stored")
        yield counter(NAME + "objects", "Values that were stored as objects", self.objects)
        yield counter(NAME + "object_bytes", "Bytes of these values", self.object_bytes)
        about = "Slices of an attempt before that were used by the next one"
        yield counter(NAME + "reused_slices", about, self.reused_slices)
        yield counter(NAME + "orphans", "Slices of batches that were then not stored", self.orphans)

    def was_split(self, messages: int, slices: int, size: int) -> None:
        self.split["split"] += messages
        self.slices += slices
        self.slice_bytes += size

    def refused(self, topic: str, reason: str, detail: str) -> None:
        self.split[reason] += 1
        if (suppressed := self.lines.due(("large message rejected", topic, reason))) is not None:
            log.warning(
                "large message rejected",
                extra={"topic": topic, "reason": reason, "detail": detail, "suppressed": suppressed},
            )

    def put_objects(self, objects: int, size: int) -> None:
        self.objects += objects
        self.object_bytes += size

    def reused(self, slices: int) -> None:
        self.reused_slices += slices

    def orphaned(self, slices: int) -> None:
        self.orphans += slices


@dataclass(slots=True)
class AssemblyStats:
    """The counters of one process."""

    clock: Callable[[], float]  # seconds
    intervals: Intervals
    assembled: int = 0  # messages that were delivered
    assembled_bytes: int = 0  # of their values
    hidden: int = 0  # segments that were fetched and not shown
    dropped: Counter[str] = field(default_factory=Counter)  # messages that were not delivered, by reason
    withheld: Counter[str] = field(default_factory=Counter)  # responses that end before such records, by reason
    reads: int = 0  # requests of our own for missing segments
    read_bytes: int = 0  # of the responses' records
    look_backs: int = 0
    refused_offsets: Counter[str] = field(default_factory=Counter)  # that are not taken for li's, by reason
    deletions: Counter[str] = field(default_factory=Counter)  # partitions of DeleteRecords, by result
    lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def families(self) -> Iterator[Family]:
        yield counter(NAME + "assembled", "Large messages that were delivered whole", self.assembled)
        yield counter(NAME + "assembled_bytes", "Bytes of their values", self.assembled_bytes)
        yield counter(NAME + "hidden", "Segments that consumers were not shown", self.hidden)
        yield counter(NAME + "dropped", "Large messages that cannot be assembled", self.dropped, "reason")
        about = "Responses that end before records that cannot be looked into"
        yield counter(NAME + "withheld", about, self.withheld, "reason")
        yield counter(NAME + "reads", "Requests of our own for segments", self.reads)
        yield counter(NAME + "read_bytes", "Bytes of the records in their responses", self.read_bytes)
        yield counter(NAME + "look_backs", "Searches for segments before a message", self.look_backs)
        about = "Stored offsets whose metadata looks like that of li and is not believed"
        yield counter(NAME + "refused_offsets", about, self.refused_offsets, "reason")
        about = "Partitions of DeleteRecords requests for topics with large messages"
        yield counter(NAME + "deletions", about, self.deletions, "result")

    def refused_offset(self, topic: str, partition: int, offset: int, reason: str) -> None:
        """A client gets a stored offset as it is, though its metadata begins with a number that li may have written."""
        self.refused_offsets[reason] += 1
        if (suppressed := self.lines.due(("refused offset", reason, topic))) is not None:
            log.info(
                "stored offset is not taken for that of a large message",
                extra={
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "reason": reason,
                    "suppressed": suppressed,
                },
            )

    def deleted(self, topic: str, partition: int, offset: int, result: str, error_code: int) -> None:
        """A client has asked to delete what is before an offset. ``error_code``: nothing was, because of it."""
        self.deletions[result] += 1
        if error_code and (suppressed := self.lines.due(("records not deleted", topic))) is not None:
            log.warning(
                "records not deleted, they may be segments of large messages",
                extra={
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "detail": f"the log before it could not be read: error {error_code}",
                    "suppressed": suppressed,
                },
            )

    def report(self, name: str, topic: bytes | str, partition: int, settings: TopicSettings) -> PartitionReport:
        """What counts for one partition of the topic with this name, which is stored by its id if that is known."""
        return PartitionReport(self, name, topic, partition, settings.max_tracked)


class PartitionReport(Report):
    """Counts and logs for one partition."""

    __slots__ = ("_max_tracked", "_name", "_partition", "_stats", "_topic")

    def __init__(self, stats: AssemblyStats, name: str, topic: bytes | str, partition: int, max_tracked: int) -> None:
        self._stats = stats
        self._name = name
        self._topic = topic
        self._partition = partition
        self._max_tracked = max_tracked

    def read(self, size: int) -> None:
        self._stats.reads += 1
        self._stats.read_bytes += size

    def looked_back(self) -> None:
        self._stats.look_backs += 1

    def hidden(self, offset: int, message_id: bytes) -> None:
        self._stats.hidden += 1
        self._stats.intervals.see_slice(self._topic, self._partition, message_id, offset, self._max_tracked)

    def assembled(self, message_id: bytes, start: int, end: int, size: int) -> None:
        self._stats.assembled += 1
        self._stats.assembled_bytes += size
        intervals = self._stats.intervals
        intervals.complete(self._topic, self._partition, message_id, start, end, self._max_tracked)

    def was_aborted(self, offset: int, message_id: bytes) -> None:
        self._stats.intervals.give_up(self._topic, self._partition, message_id, self._max_tracked)

    def seen(self, start: int, end: int) -> None:
        self._stats.intervals.see(self._topic, self._partition, start, end)

    def withheld(self, offset: int, reason: str) -> None:
        self._stats.withheld[reason] += 1
        if (suppressed := self._stats.lines.due(("withheld", reason, self._name))) is not None:
            log.warning(
                "records withheld, they may be segments of large messages",
                extra={
                    "topic": self._name,
                    "partition": self._partition,
                    "offset": offset,
                    "reason": reason,
                    "suppressed": suppressed,
                },
            )

    def dropped(self, offset: int, reason: str, message_id: bytes | None) -> None:
        if message_id is not None:
            self._stats.intervals.give_up(self._topic, self._partition, message_id, self._max_tracked)
        self._stats.dropped[reason] += 1
        if (suppressed := self._stats.lines.due(("large message not assembled", reason, self._name))) is not None:
            log.warning(
                "large message not assembled",
                extra={
                    "topic": self._name,
                    "partition": self._partition,
                    "offset": offset,
                    "reason": reason,
                    "suppressed": suppressed,
                },
            )
