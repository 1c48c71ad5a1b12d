"""The services of a running sidecar for the stages that split and assemble large messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.cache import ResumePoints, SegmentCache, Unfinished
from kafka_sidecar.large_messages.classify import Reader
from kafka_sidecar.large_messages.partition_log import PartitionLog
from kafka_sidecar.large_messages.reading import Report
from kafka_sidecar.large_messages.segment_index import SegmentIndex, SegmentIndexes
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.exchanges.held_clients import HiddenOffsets
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS
from kafka_sidecar.proxy.exchanges.produce_response import PartitionRejection
from kafka_sidecar.proxy.features.large_messages.progress import ProgressStore
from kafka_sidecar.proxy.features.large_messages.reads import ReadsAhead
from kafka_sidecar.proxy.features.large_messages.slices import WriteRights
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.relay.exchange import Client

TIMED_OUT = PartitionRejection(
    ErrorCode.REQUEST_TIMED_OUT, "looking into the batch took longer than large_messages.timeout"
)


class SplitReport(Protocol):
    """Counts and logs what becomes of large messages that are produced."""

    def was_split(self, messages: int, slices: int, size: int) -> None:
        """Slices of a batch are stored: of how many messages, how many, their bytes."""

    def refused(self, topic: str, reason: str, detail: str) -> None:
        """A batch is rejected."""

    def put_objects(self, objects: int, size: int) -> None:
        """Values are stored as objects: how many, their bytes."""

    def reused(self, slices: int) -> None:
        """Slices that an attempt before has stored are used."""

    def orphaned(self, slices: int) -> None:
        """Slices are stored for a batch that is not."""


@dataclass(frozen=True, slots=True)
class Services:
    settings_of: Callable[[str], TopicSettings | None]
    report: SplitReport
    topic_limits: TopicLimits
    random: Callable[[int], bytes]
    id_of: Callable[[str], bytes] = lambda name: NO_ID  # a topic's by its name, zeros if it is not known
    max_inflated: int = 100 << 20  # bytes that a batch may have when it is inflated
    max_records: int = DEFAULT_LIMITS.max_records
    li_clients: tuple[str, ...] = ()  # client ids of clients that split and assemble themselves
    time_limit: TimeLimit = field(default_factory=lambda: TimeLimit("large_messages", inf, inf))  # of a request
    max_record_errors: int = 1000  # of one batch, in a response
    rights: WriteRights = field(default_factory=lambda: WriteRights(lambda: 0.0))
    progress: ProgressStore = field(default_factory=lambda: ProgressStore(lambda: 0.0, lambda slices: None))

    def is_li(self, client: Client) -> bool:
        """Whether the client splits and assembles itself."""
        return matches(client.client_id or "", self.li_clients)


# Makes the report of one partition: its topic's name, the key by which it is stored, its index, the topic's settings.
MakeReport = Callable[[str, bytes | str, int, TopicSettings], Report]


@dataclass(frozen=True, slots=True)
class AssemblyServices:
    name_of: Callable[[bytes], str | None]  # a topic's by its id, where it is known
    id_of: Callable[[str], bytes]  # zeros where it is not known
    report: MakeReport
    stopwatch: Callable[[], float]  # seconds of a clock that is never set
    cache: SegmentCache
    unfinished: Unfinished
    inflate_limit: int  # bytes that a batch may have when it is inflated
    read_ahead: int  # bytes that one Fetch may read in addition
    max_records: int = DEFAULT_LIMITS.max_records
    hold_for: tuple[str, ...] = ()  # client ids of clients that would show control batches
    li_clients: tuple[str, ...] = ()  # client ids of clients that assemble themselves
    time_limit: TimeLimit = field(default_factory=lambda: TimeLimit("large_messages", inf, inf))  # of a request
    indexes: SegmentIndexes = field(default_factory=SegmentIndexes)
    resume_points: ResumePoints = field(default_factory=ResumePoints)
    ahead: ReadsAhead = field(default_factory=lambda: ReadsAhead(0, lambda: 0.0))
    hidden_offsets: HiddenOffsets = field(default_factory=HiddenOffsets)

    def assembles_itself(self, client: Client) -> bool:
        """Whether it is li's client, which must get segments as they are stored."""
        return matches(client.client_id or "", self.li_clients)

    def log(
        self,
        name: str,
        topic: bytes | str,
        partition: int,
        settings: TopicSettings,
        is_committed_only: bool,
        index: SegmentIndex | None = None,
    ) -> PartitionLog:
        """One partition of the topic with this name, which is stored by its id if that is known.

        ``index``: what its reader has seen; default: what all readers of this isolation level have.
        """
        reader = Reader(name, settings.deserializer, reads_objects=settings.store == "object")
        report = self.report(name, topic, partition, settings)
        index = index or self.indexes.of(topic, partition, is_committed_only)
        resumed = partial(self.resume_points.before, name, partition) if settings.offsets == "strict-li" else None
        return PartitionLog(
            topic, partition, settings, reader, self.cache, index, is_committed_only, report, self.max_records, resumed
        )
