"""The last stage of a Produce: values that are larger than their topic allows are stored in slices first.

Policies and interceptors have seen the whole value. What cannot be split because it cannot be read goes on as it came:
the broker says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.produce import PartitionProduceResponse
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, Records, reseal
from kafka_sidecar.codec.records.log_validator import InvalidBatch, find_fault
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.lm_header import with_timestamps
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.large_messages.splitting import RefusedError, Split, Target, split, strip_delivered
from kafka_sidecar.plugins.effects import Steps, TimeLeft, Work
from kafka_sidecar.proxy.config.large_messages import MAX_MESSAGE_FOR_ALL_CLIENTS
from kafka_sidecar.proxy.exchanges.limits import is_light, takes_long
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection, Results
from kafka_sidecar.proxy.features.large_messages.services import Services
from kafka_sidecar.proxy.features.large_messages.slices import SliceRequests, Stored, TopicLimit, store
from kafka_sidecar.proxy.relay.exchange import NO_OFFSET, Client, Send, TopicIds
from kafka_sidecar.proxy.telemetry.clock import now_ms

# Part of the software name (KIP-511): of its producer, and of its consumer where that has a fixed limit.
SETTINGS = (
    ("apache-kafka-java", "max.request.size", None),
    ("rdkafka", "message.max.bytes", "receive.message.max.bytes"),
    ("kgo", "ProducerBatchMaxBytes", "BrokerMaxReadBytes"),
    ("sarama", "Producer.MaxMessageBytes", "MaxResponseSize"),
    ("kafka-python", "max_request_size", "receive_message_max_bytes"),
)


def advice(client_software: str | None, max_message: int) -> str:
    """What to set so that this client's values are accepted, or rejected before they are sent."""
    name = (client_software or "").lower()
    producer, consumer = next(
        ((producer, consumer) for part, producer, consumer in SETTINGS if part in name),
        ("its maximum size of requests", None),
    )
    text = f"raise max_message, or lower {producer} of the producer to {max_message}"
    if max_message > MAX_MESSAGE_FOR_ALL_CLIENTS // 2 and consumer is not None:
        text += f"; consumers of this library need {consumer} above the new max_message"
    return text


MAX_INLINE_RECORDS = 1000  # that a batch may have to be looked into while others wait
TIMED_OUT = PartitionRejection(
    ErrorCode.REQUEST_TIMED_OUT, "splitting the batch took longer than large_messages.timeout"
)


NO_KEYS = "if the topic is compacted, slices need unique keys: set large_messages.topics: compacted: unique"


class SplitStage(Stage):
    """Splits the large messages of all topics that are enabled."""

    is_stable = True  # until another configuration is applied, and with it new routes

    def __init__(self, services: Services) -> None:
        self._services = services

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        settings_of = self._services.settings_of
        return not topics or any(name is None or settings_of(name) is not None for name, _ in topics)

    def start(self, client: Client, version: int) -> SplitRun:
        return SplitRun(self._services, client, version)


class SplitRun(StageRun):
    """The large messages of one request."""

    __slots__ = ("_is_li", "_time_left", "client", "large", "request", "services", "slices", "spans", "version")

    request: OpenRequest
    spans: ProduceSpans

    def __init__(self, services: Services, client: Client, version: int) -> None:
        self.services = services
        self.client = client
        self.version = version
        self.slices: dict[PartitionKey, tuple[str, int]] = {}  # topic, and how many are stored
        self.large: dict[PartitionKey, list[tuple[int, int]]] = {}
        self._is_li = services.is_li(client)
        self._time_left: TimeLeft | None = None

    @property
    def wants_response(self) -> bool:
        return bool(self.slices)

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        self.request, self.spans = request, spans

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicSplit | None:
        settings = self.services.settings_of(topic) if topic is not None and not self._is_li else None
        return TopicSplit(self, topic, topic_id, settings) if settings is not None and topic is not None else None

    def time_left(self) -> TimeLeft:
        """For this request; few need it."""
        if self._time_left is None:
            self._time_left = self.services.time_limit.start()
        return self._time_left

    def sent(self) -> None: ...

    def answered(self, results: Results) -> None:
        for key, (topic, slices) in self.slices.items():
            result = results.get(key)
            if result is not None and result.error_code != ErrorCode.NONE:
                self.services.report.orphaned(slices)
                if result.error_code == ErrorCode.MESSAGE_TOO_LARGE:
                    self.services.topic_limits.forget(topic)

    def unanswered(self, rejected: set[PartitionKey], why: str) -> None: ...

    def lost(self, why: str) -> None: ...


class TopicSplit(TopicRun):
    """The large messages of one topic of a request."""

    __slots__ = ("_run", "_settings", "_topic", "_topic_id")

    needs_records = splits = True

    def __init__(self, run: SplitRun, topic: str, topic_id: bytes, settings: TopicSettings) -> None:
        self._run = run
        self._topic = topic
        self._topic_id = topic_id
        self._settings = settings

    @property
    def _max_inflated(self) -> int:
        """Bytes that a batch may have when it is inflated, to be split."""
        return max(self._run.services.max_inflated, self._settings.max_message)

    def expect(self, partitions: Sequence[PartitionRecords]) -> None: ...

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        if partition.rejection is not None or isinstance(partition.batch, InvalidBatch):
            return None
        batch = partition.valid_batch
        size = len(batch.data)
        limit = self._known_limit(size)
        if limit is not None and size <= limit.max_batch and not takes_long(batch, MAX_INLINE_RECORDS):
            new = self._prepared(partition, batch)
            if new is None or len(new) <= limit.max_batch:
                if new is not None:
                    partition.replace(new)
                return None
        return self._look(partition, batch, limit)

    def _known_limit(self, size: int) -> TopicLimit | None:
        """What is allowed for a batch of this size; None: the broker has to be asked."""
        found, settings = self._run.services.topic_limits.find(self._topic, size), self._settings
        if found is not None:
            return self._lower(found)
        if settings.max_batch is None or (size > settings.max_batch and settings.compacted == "unique"):
            return None  # the keys of slices depend on the topic
        return TopicLimit(settings.max_batch)

    def _lower(self, limit: TopicLimit) -> TopicLimit:
        """What the topic allows, or the setting if that is less."""
        max_batch = self._settings.max_batch
        return limit if max_batch is None else replace(limit, max_batch=min(max_batch, limit.max_batch))

    def _look(self, partition: PartitionRecords, batch: Batch, limit: TopicLimit | None) -> Steps[None]:
        run = self._run
        if limit is None:
            limits, request = run.services.topic_limits, run.request
            question = limits.request(self._topic, request.correlation_id, request.client_id)
            (answer,) = yield Send((question,))
            limit = self._lower(limits.learn(self._topic, answer))
        try:
            size, new = len(batch.data), None
            if size <= limit.max_batch:
                new = yield self._work(partial(self._prepared, partition, batch), batch)
                size = size if new is None else len(new)
            if size > limit.max_batch:
                yield from self._split(partition, batch, limit)
            elif new is not None:
                partition.replace(new)
        except TimeoutError:
            self._reject(partition, "timed_out", TIMED_OUT)

    def _work(self, run: Callable[[], object], batch: Batch) -> Work:
        return Work(run, is_light=is_light(batch), limit=self._run.time_left())

    def _prepared(self, partition: PartitionRecords, batch: Batch) -> bytes | None:
        """The batch as it is stored if it is not split; None: as it is."""
        records = self._read(partition, batch)
        if not isinstance(records, Records):
            return None
        prepared = self._prepare(records)
        return reseal(batch, prepared) if prepared is not records else None

    def _prepare(self, records: Records) -> Records:
        """Without headers of messages that were assembled before, and with `_t` where it is configured."""
        records = strip_delivered(records)
        return with_timestamps(records, now_ms()) if self._settings.timestamp_header else records

    def _read(self, partition: PartitionRecords, batch: Batch) -> Records | CodecError | None:
        """The records, or why they cannot be read; None: the broker will reject the batch."""
        if find_fault(batch) is not None:
            return None
        try:
            return partition.records(self._max_inflated)
        except CodecError as error:
            return error

    def _split(self, partition: PartitionRecords, batch: Batch, limit: TopicLimit) -> Steps[None]:
        """Store slices, and have the carrier sent in place of the batch."""
        run = self._run
        report, topic, topic_id = run.services.report, self._topic, (yield from self._find_id())
        requests = SliceRequests(run.request, run.spans, run.version, partition.key, partition.index)
        target = Target(
            topic, topic_id, partition.index, limit.max_batch, limit.is_compacted, self._settings, run.services.random
        )
        may_retry = True
        while True:
            found = yield self._work(partial(self._divide, partition, batch, target), batch)
            if not isinstance(found, Split):
                self._refuse(partition, found)
                return
            stored = yield from store(found.slices, requests)
            if stored.error is None:
                yield from self._carry(partition, found, stored)
                return
            report.orphaned(len(stored.offsets))
            if not may_retry or stored.error.error_code != ErrorCode.MESSAGE_TOO_LARGE:
                self._reject(partition, "slice", _explain(stored.error))
                return
            may_retry = False  # the topic allows less than is known of it: once more, with slices of half the size
            lower = run.services.topic_limits.lower(topic, target.max_slice // 2, target.is_compacted)
            target = replace(target, max_batch=lower.max_batch)

    def _find_id(self) -> Steps[bytes]:
        """The topic's id, zeros if the cluster has none."""
        topic_id = self._topic_id if self._topic_id != NO_ID else self._run.services.id_of(self._topic)
        if topic_id == NO_ID:
            topic_id = ((yield TopicIds((self._topic,))) or {}).get(self._topic, NO_ID)
        return topic_id

    def _divide(self, partition: PartitionRecords, batch: Batch, target: Target) -> Split | RefusedError | None:
        """The slices and their carrier; None: the batch goes on as it is."""
        records = self._read(partition, batch)
        if isinstance(records, BatchTooLargeError):
            return RefusedError(ErrorCode.MESSAGE_TOO_LARGE, "too_large", str(records))
        if not isinstance(records, Records):
            return None
        try:
            return split(batch, self._prepare(records), target)
        except RefusedError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a serializer is a plug-in
            text = f"the segment serializer has failed: {type(error).__name__}"
            return RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "serializer", text)

    def _carry(self, partition: PartitionRecords, found: Split, stored: Stored) -> Steps[None]:
        carrier = partial(found.carrier, stored.offsets)
        partition.replace((yield self._work(carrier, found.batch)) if found.batch.header.codec else carrier())
        if stored.offsets:
            self._run.slices[partition.key, partition.index] = self._topic, len(stored.offsets)
            self._run.large[partition.key, partition.index] = [
                (NO_OFFSET, one.cut.header.count) for one in found.values
            ]
            self._run.services.report.was_split(len(found.values), len(stored.offsets), stored.size)

    def _refuse(self, partition: PartitionRecords, error: RefusedError | None) -> None:
        if error is None:
            return
        message = str(error)
        if error.reason == "too_large":
            message += f"; {advice(self._run.client.client_software, self._settings.max_message)}"
        self._reject(partition, error.reason, PartitionRejection(error.error_code, message))

    def _reject(self, partition: PartitionRecords, reason: str, rejection: PartitionRejection) -> None:
        partition.rejection = rejection
        if partition.fallback is None:  # which may be small enough
            self._run.services.report.refused(self._topic, reason, rejection.message)


def _explain(error: PartitionProduceResponse) -> PartitionRejection:
    """The rejection of a batch whose slices are not stored."""
    code = error.error_code
    if code == ErrorCode.INVALID_RECORD:  # a compacted topic: slices have no key
        code, why = ErrorCode.MESSAGE_TOO_LARGE, NO_KEYS
    else:
        why = error.error_message or "the broker rejects it"
    return PartitionRejection(code, f"a slice of the message is not stored: {why}")
