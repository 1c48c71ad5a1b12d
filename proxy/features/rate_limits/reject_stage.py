"""The stage of a Produce that rejects batches over a limit, before they cost more than being read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.records import Batch
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionRejection
from kafka_sidecar.proxy.features.rate_limits.limits import Limit
from kafka_sidecar.proxy.relay.exchange import Client

# Takes what a batch of a client for a topic needs, of so many bytes and records; the name of the limit that rejects it.
Admit = Callable[[Client, str, int, int], str | None]


class RejectStage(Stage):
    """Rejects batches as the limits of one configuration say."""

    is_stable = True

    def __init__(self, limits: Sequence[Limit], admit: Admit) -> None:
        self._limits = limits
        self._admit = admit

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        return not topics or any(name is None or self._counts(name) for name, _ in topics)

    def _counts(self, topic: str) -> bool:
        return any(limit.covers(topic) for limit in self._limits)

    def start(self, client: Client, version: int) -> RejectRun:
        return RejectRun(client, self._admit, self._counts)


class RejectRun(StageRun):
    """One request."""

    __slots__ = ("_admit", "_client", "_counts")

    wants_response = False

    def __init__(self, client: Client, admit: Admit, counts: Callable[[str], bool]) -> None:
        self._client = client
        self._admit = admit
        self._counts = counts

    def open(self, request: OpenRequest, spans: ProduceSpans) -> Steps[PartitionRejection | None] | None:
        return None

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> RejectTopic | None:
        name = topic or ""  # a topic that the cluster does not know is counted where no topic is named
        return RejectTopic(self, name) if self._counts(name) else None

    def reject(self, topic: str, partition: PartitionRecords) -> None:
        """Reject a batch if its client is over a limit."""
        batch, span = partition.batch, partition.span
        records = batch.header.count if isinstance(batch, Batch) else 0
        name = self._admit(self._client, topic, span.records_end - span.records_start, records)
        if name is not None:
            why = f"rate limit {name}: the client is over its rate, nothing of the batch was stored"
            partition.rejection = PartitionRejection(ErrorCode.POLICY_VIOLATION, why)


class RejectTopic(TopicRun):
    """One topic of a request."""

    __slots__ = ("_run", "_topic")

    needs_records = False

    def __init__(self, run: RejectRun, topic: str) -> None:
        self._run = run
        self._topic = topic

    def expect(self, partitions: Sequence[PartitionRecords]) -> None:
        return

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        if partition.rejection is None:
            self._run.reject(self._topic, partition)
        return None
