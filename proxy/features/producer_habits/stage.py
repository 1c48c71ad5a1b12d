"""The first stage of a Produce for topics whose producers have to send in some way, or are only listed.

What is before the topics of a request is looked at before it is buffered: where no more is asked, a request that is as
required is relayed, and those that begin alike. Of a batch only the header is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import BatchHeader
from kafka_sidecar.codec.records.log_validator import InvalidBatch
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.exchanges.produce import GuardStage, PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import UNKNOWN_TOPIC, PartitionRejection
from kafka_sidecar.proxy.exchanges.repeated import with_hint
from kafka_sidecar.proxy.features.producer_habits.clients import MEAN_OVER_S, Key, Producer, Producers, index_of, key_of
from kafka_sidecar.proxy.features.producer_habits.habits import Entries, Entry, Fault, explain
from kafka_sidecar.proxy.relay.acks import ProduceHead, read_head
from kafka_sidecar.proxy.relay.exchange import Client

MAX_KNOWN = 1000  # kinds of requests, of clients and topics
NameOf = Callable[[bytes], str | None]


class Report(Protocol):
    """Counts, lists and logs what producers do."""

    producers: Producers

    @property
    def batches(self) -> Sequence[list[int]]:
        """By codec and `index_of` the acks."""
        ...

    @property
    def clock(self) -> Callable[[], float]: ...

    def violated(
        self, key: Key, partition: int, faults: Sequence[Fault], enforced: bool, entry: Entry, client: Client,
        header: BatchHeader | None,
    ) -> str: ...  # fmt: skip

    def small_on_average(self, key: Key, faults: Sequence[Fault], entry: Entry, client: Client) -> None: ...


class Sent(NamedTuple):
    """The entry and the faults of requests for one topic that begin alike, of clients that are alike."""

    entry: Entry
    key: Key
    faults: Sequence[Fault]  # of what stands before the batches


class Begins:
    """The base of the two stages: entries, and the run that looks at a request."""

    def __init__(self, entries: Entries, report: Report) -> None:
        self.entries = entries
        self.report = report
        self._sent = Bounded[tuple[ProduceHead, str | None, str | None, str], Sent | None](MAX_KNOWN)

    def find(self, head: ProduceHead, client: Client, topic: str) -> Sent | None:
        """The entry and faults for a topic of a request; None: no entry applies."""
        kind = head, client.principal, client.client_software, topic
        found = self._sent.get(kind, ...)
        if found is ...:
            found = None
            if (entry := self.entries.find(topic, client.principal)) is not None:
                key = key_of(head.client_id, client.principal, client.client_software, topic)
                found = Sent(entry, key, entry.faults_of_request(head, client.client_software))
            self._sent[kind] = found
        return found

    def start(self, client: Client, version: int) -> HabitsRun:
        return HabitsRun(self, client, version)


class HabitsStage(Begins, Stage):
    """Of topics for which batches are looked at."""

    is_stable = True  # until another configuration is applied, and with it new routes

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        """No topics: they are not known before the request is buffered, and the other stage begins."""
        return any(name is None or self._looks_into(name) for name, _ in topics)

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
        named = [(self._name_of(key), key) if isinstance(key, bytes) else (key, b"") for key in topics]
        return self._batches.applies(named) or all(
            (sent := self.find(head, client, name)) is None or not sent.faults for name, _ in named if name is not None
        )


class HabitsRun(StageRun):
    """One request."""

    __slots__ = ("_version", "begins", "client", "head")

    wants_response = False
    head: ProduceHead  # from `open` on

    def __init__(self, begins: Begins, client: Client, version: int) -> None:
        self.begins = begins
        self.client = client
        self._version = version

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        try:
            self.head = ProduceHead(request.client_id, spans.transactional_id, spans.acks)
        except CodecError:  # a client id that is no text; a broker reads it nevertheless
            self.head = read_head(self._version, request.frame, 0)

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicHabits | PartitionRejection | None:
        if topic is None:
            return UNKNOWN_TOPIC
        sent = self.begins.find(self.head, self.client, topic)
        return TopicHabits(self, sent) if sent is not None else None


class TopicHabits(TopicRun):
    """One topic of a request."""

    __slots__ = ("_acks", "_entry", "_key", "_of_request", "_producer", "_report", "_run")

    needs_records = False

    def __init__(self, run: HabitsRun, sent: Sent) -> None:
        report = run.begins.report
        self._run = run
        self._report = report
        self._entry, self._key, self._of_request = sent
        self._acks = index_of(run.head.acks)
        self._producer: Producer | None = None
        if self._entry.reports:
            self._producer = report.producers.of(self._key, report.clock())
            self._producer.host = run.client.host

    def expect(self, partitions: Sequence[PartitionRecords]) -> None: ...

    def batch(self, partition: PartitionRecords) -> None:
        if partition.rejection is not None:
            return
        batch, producer = partition.batch, self._producer
        header: BatchHeader | None = None
        if isinstance(batch, InvalidBatch):
            faults = self._entry.fault_of_invalid(batch)
        else:
            header = batch.header
            codec = header.codec
            faults = self._entry.faults_of_batch(header, codec)
            self._report.batches[codec][self._acks] += 1
            if producer is not None:
                producer.count(header, codec, self._acks)
                if self._entry.asks_for_mean and producer.at - producer.minute >= MEAN_OVER_S:
                    self._look_at_mean(producer)
        if faults or self._of_request:
            self._settle(partition, [*self._of_request, *faults], header)

    def _look_at_mean(self, producer: Producer) -> None:
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
