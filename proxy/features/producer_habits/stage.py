"""The first stage of a Produce for topics whose producers have to send in some way, or are only listed.

What is before the topics of a request is looked at before it is buffered: where no more is asked, a request that is as
required is relayed, and those that begin alike. Of a batch only the header is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.records import BatchHeader
from kafka_sidecar.codec.records.log_validator import InvalidBatch
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.proxy.exchanges.produce import GuardStage, PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import UNKNOWN_TOPIC, PartitionRejection
from kafka_sidecar.proxy.exchanges.repeated import with_hint
from kafka_sidecar.proxy.features.producer_habits.clients import Key, Producer, Producers, key_of
from kafka_sidecar.proxy.features.producer_habits.habits import Entries, Entry, Fault, explain
from kafka_sidecar.proxy.relay.acks import ProduceHead, read_head
from kafka_sidecar.proxy.relay.exchange import Client

NameOf = Callable[[bytes], str | None]


class Report(Protocol):
    """Counts, lists and logs what producers do."""

    producers: Producers

    @property
    def clock(self) -> Callable[[], float]: ...

    def count(self, header: BatchHeader, acks: int) -> None: ...

    def violated(
        self, key: Key, partition: int, faults: Sequence[Fault], enforced: bool, entry: Entry, client: Client,
        header: BatchHeader | None,
    ) -> str: ...  # fmt: skip

    def small_on_average(self, key: Key, faults: Sequence[Fault], entry: Entry, client: Client) -> None: ...


class Begins:
    """What the two stages have in common: entries, and the run that looks at a request."""

    def __init__(self, entries: Entries, report: Report) -> None:
        self.entries = entries
        self.report = report

    def start(self, client: Client, version: int) -> HabitsRun:
        return HabitsRun(self, client, version)


class HabitsStage(Begins, Stage):
    """Of topics for which batches are looked at."""

    is_stable = True  # until another configuration is applied, and with it new routes

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        if self.entries.are_empty:
            return False
        return not topics or any(name is None or self._looks_into(name) for name, _ in topics)

    def _looks_into(self, topic: str) -> bool:
        return any(not entry.is_off and entry.settings.needs_batches for entry in self.entries.of_topic(topic))


class HeadStage(Begins, GuardStage):
    """Of topics for which only what is before the batches counts."""

    def __init__(self, entries: Entries, report: Report, batches: HabitsStage, name_of: NameOf) -> None:
        super().__init__(entries, report)
        self._batches = batches
        self._name_of = name_of

    def allows(self, client: Client, head: ProduceHead, topics: Sequence[str | bytes]) -> bool:
        """As `exchanges.limits.Guard`. What the other stage looks into, it looks into as a whole."""
        if self.entries.are_empty:
            return True
        named = [(self._name_of(key), key) if isinstance(key, bytes) else (key, b"") for key in topics]
        return self._batches.applies(named) or all(
            (entry := self.entries.find(name, client.principal)) is None
            or not entry.faults_of_request(head, client.client_software)
            for name, _ in named
            if name is not None
        )


class HabitsRun(StageRun):
    """One request."""

    __slots__ = ("_version", "begins", "client", "head")

    wants_response = False

    def __init__(self, begins: Begins, client: Client, version: int) -> None:
        self.begins = begins
        self.client = client
        self._version = version
        self.head = ProduceHead(None, None, 0)

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        self.head = read_head(self._version, request.frame, 0)

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicHabits | PartitionRejection | None:
        if topic is None:
            return UNKNOWN_TOPIC
        entry = self.begins.entries.find(topic, self.client.principal)
        return TopicHabits(self, topic, entry) if entry is not None else None


class TopicHabits(TopicRun):
    """What a request brings for one topic."""

    __slots__ = ("_entry", "_key", "_of_request", "_producer", "_report", "_run")

    needs_records = False

    def __init__(self, run: HabitsRun, topic: str, entry: Entry) -> None:
        client, report = run.client, run.begins.report
        self._run = run
        self._entry = entry
        self._report = report
        self._key = key_of(run.head.client_id, client.principal, client.client_software, topic)
        self._of_request: Sequence[Fault] = entry.faults_of_request(run.head, client.client_software)
        self._producer: Producer | None = None
        if entry.settings.report:
            self._producer = report.producers.of(self._key, report.clock())
            self._producer.host = client.host

    def expect(self, partitions: Sequence[PartitionRecords]) -> None: ...

    def batch(self, partition: PartitionRecords) -> None:
        if partition.rejection is not None:
            return
        batch, producer, entry = partition.batch, self._producer, self._entry
        header: BatchHeader | None = None
        if isinstance(batch, InvalidBatch):
            faults = [*self._of_request, *entry.fault_of_invalid(batch)]
        else:
            header = batch.header
            faults = [*self._of_request, *entry.faults_of_batch(header)]
            self._report.count(header, self._run.head.acks)
            if producer is not None:
                producer.count(header, self._run.head.acks)
                self._look_at_mean(producer)
        if faults:
            self._settle(partition, faults, header)

    def _look_at_mean(self, producer: Producer) -> None:
        if not self._entry.asks_for_mean:
            return
        if faults := producer.faults_of_mean(self._entry, producer.at):
            producer.faults.update(fault.habit for fault in faults)
            self._report.small_on_average(self._key, faults, self._entry, self._run.client)

    def _settle(self, partition: PartitionRecords, faults: Sequence[Fault], header: BatchHeader | None) -> None:
        if self._producer is not None:
            self._producer.faults.update(fault.habit for fault in faults)
        enforced = self._entry.enforces(header.crc if header is not None else 0)
        client, key = self._run.client, self._key
        found = self._report.violated(key, partition.index, faults, enforced, self._entry, client, header)
        if enforced:
            message = with_hint(explain(key.topic, faults), found)
            partition.rejection = PartitionRejection(ErrorCode.POLICY_VIOLATION, message)
