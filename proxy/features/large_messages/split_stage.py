"""The last stage of a Produce: values that are larger than their topic allows are stored in slices first.

Policies and interceptors have seen the whole value. What cannot be split because it cannot be read goes on as it came:
the broker says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.produce import PartitionProduceResponse
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, Records, reseal
from kafka_sidecar.codec.records.log_validator import InvalidBatch, find_fault
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.cutting import size_of
from kafka_sidecar.large_messages.lm_header import with_timestamps
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.large_messages.splitting import RefusedError, Split, Target, check_values, split, strip_delivered
from kafka_sidecar.plugins.clock import now_ms
from kafka_sidecar.plugins.effects import Steps, TimeLeft, Work
from kafka_sidecar.proxy.config.large_messages import MAX_MESSAGE_FOR_ALL_CLIENTS
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES, is_light, takes_long
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection, Results
from kafka_sidecar.proxy.features.large_messages.progress import Progress
from kafka_sidecar.proxy.features.large_messages.services import TIMED_OUT, Services
from kafka_sidecar.proxy.features.large_messages.slices import Slice, SliceRequests, store
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimit
from kafka_sidecar.proxy.relay.exchange import NO_OFFSET, Client, Send, TopicIds

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


ALL_REPLICAS = -1  # acks
MAX_INLINE_RECORDS = 1000  # that a batch may have to be looked into while others wait
# After these producers send a batch again; after the last two it may be stored all the same.
RETRIABLE = frozenset({2, 3, 5, 6, 7, 13, 19, 20, 56, 75, 89, 100})
MAY_BE_STORED = frozenset({7, 20})
GOES_ON = PartitionRejection(
    ErrorCode.REQUEST_TIMED_OUT, "the message has been sent again, on another connection: that attempt goes on"
)
REFUSALS_OF_LARGE = ("compacted", "small_values", "no_key", "slices")
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


@dataclass(frozen=True, slots=True)
class Sending:
    """A batch whose slices are stored: what became of its carrier is not known yet."""

    topic: str
    progress: Sequence[Progress]  # of each of its large values
    is_idempotent: bool  # a broker stores the carrier once, however often it is sent


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that is not split."""

    new: bytes | None  # None: as it came
    size: int  # that the topic's limit is compared with


class SplitRun(StageRun):
    """The large messages of one request."""

    __slots__ = (
        "_assumed", "_is_li", "_is_sent", "_time_left", "client", "large", "request", "sending", "services", "spans",
        "version",
    )  # fmt: skip

    request: OpenRequest
    spans: ProduceSpans

    def __init__(self, services: Services, client: Client, version: int) -> None:
        self.services = services
        self.client = client
        self.version = version
        self.sending: dict[PartitionKey, Sending] = {}
        self._assumed: dict[PartitionKey, str] = {}  # topics whose brokers were not asked what they allow
        self._is_sent = False
        self.large: dict[PartitionKey, list[tuple[int, int]]] = {}
        self._is_li = services.is_li(client)
        self._time_left: TimeLeft | None = None

    @property
    def wants_response(self) -> bool:
        return bool(self.sending or self._assumed)

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

    @property
    def sender(self) -> bytes:
        """Who sends the request, as far as it is the same on another connection."""
        client = self.client
        return repr((client.client_id, client.principal, client.host)).encode()

    def assume(self, key: PartitionKey, topic: str) -> None:
        """The broker will say whether the batch is too large."""
        self._assumed[key] = topic

    def sent(self) -> None:
        self._is_sent = True

    def answered(self, results: Results) -> None:
        codes = {key: result.error_code for key, result in results.items()}
        topics = self._assumed | {key: one.topic for key, one in self.sending.items()}
        for key, topic in topics.items():
            if codes.get(key) == ErrorCode.MESSAGE_TOO_LARGE:
                self.services.topic_limits.forget(topic)
        for key in list(self.sending):
            self.settle(self.sending.pop(key), codes.get(key, ErrorCode.NONE))

    def unanswered(self, rejected: set[PartitionKey], why: str) -> None:
        while self.sending:
            self.settle(self.sending.popitem()[1], ErrorCode.NONE)

    def lost(self, why: str) -> None:
        while self.sending:
            _, sending = self.sending.popitem()
            is_known = not self._is_sent or sending.is_idempotent
            for one in sending.progress:
                (self.services.progress.put_back if is_known else self.services.progress.end)(one)

    def settle(self, sending: Sending, code: int, is_carrier: bool = True) -> None:
        """The carrier is stored, or rejected with this code; or a slice is."""
        progress = self.services.progress
        if code == ErrorCode.NONE:
            # A client that has given up sends it again, and the broker finds that it has it.
            is_repeated = sending.is_idempotent and self.client.has_closed
            for one in sending.progress:
                one.is_stored = True
            settle = progress.put_back if is_repeated else progress.end
        elif code in RETRIABLE and not (is_carrier and code in MAY_BE_STORED and not sending.is_idempotent):
            settle = progress.put_back
        else:
            settle = progress.abandon
        for one in sending.progress:
            settle(one)


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
        limit = self._known_limit(partition, len(batch.data))
        if limit is not None and len(batch.data) <= limit.max_batch and not takes_long(batch, MAX_INLINE_RECORDS):
            found = self._prepared(partition, batch, limit, MAX_INLINE_BYTES)
            if found is None or (isinstance(found, Prepared) and found.size <= limit.max_batch):
                self._go_on(partition, found)
                return None
        return self._look(partition, batch, limit)

    def _known_limit(self, partition: PartitionRecords, size: int) -> TopicLimit | None:
        """What is allowed for a batch of this size; None: the broker has to be asked."""
        limits, settings = self._run.services.topic_limits, self._settings
        found = limits.find(self._topic)
        if found is not None:
            return self._lower(found)
        if settings.max_batch is None or limits.was_needed(self._topic):
            return None
        if size > settings.max_batch and settings.compacted == "unique":
            return None  # the keys of slices depend on the topic
        self._run.assume((partition.key, partition.index), self._topic)
        return TopicLimit(settings.max_batch)

    def _lower(self, limit: TopicLimit) -> TopicLimit:
        """What the topic allows, or the setting if that is less."""
        max_batch = self._settings.max_batch
        return limit if max_batch is None else replace(limit, max_batch=min(max_batch, limit.max_batch))

    def _look(self, partition: PartitionRecords, batch: Batch, limit: TopicLimit | None) -> Steps[None]:
        if limit is None:
            limit = yield from self._ask()
        try:
            found: Prepared | RefusedError | None = Prepared(None, len(batch.data))
            if len(batch.data) <= limit.max_batch:
                prepare = partial(self._prepared, partition, batch, limit, self._max_inflated)
                found = yield self._work(prepare, batch)
            if isinstance(found, RefusedError):
                self._refuse(partition, found)
            elif found is None or found.size <= limit.max_batch:
                self._go_on(partition, found)
            else:
                sent = len(batch.data if found.new is None else found.new)
                yield from self._split(partition, batch, limit, found if sent <= limit.max_batch else None)
        except TimeoutError:
            self._reject(partition, "timed_out", TIMED_OUT)

    def _ask(self) -> Steps[TopicLimit]:
        """What the broker allows now."""
        limits, request = self._run.services.topic_limits, self._run.request
        question = limits.request(self._topic, request.correlation_id, request.client_id)
        (answer,) = yield Send((question,))
        return self._lower(limits.learn(self._topic, answer))

    def _go_on(self, partition: PartitionRecords, found: Prepared | None) -> None:
        """The batch is not split."""
        if found is not None and found.new is not None:
            partition.replace(found.new)

    def _work(self, run: Callable[[], object], batch: Batch) -> Work:
        return Work(run, is_light=is_light(batch), limit=self._run.time_left())

    def _prepared(
        self, partition: PartitionRecords, batch: Batch, limit: TopicLimit, max_inflated: int
    ) -> Prepared | RefusedError | None:
        """The batch if it is not split; None: it is left to the broker."""
        records = self._read(partition, batch, max_inflated)
        if isinstance(records, BatchTooLargeError):  # no consumer would get it
            return RefusedError(ErrorCode.MESSAGE_TOO_LARGE, "too_large", str(records))
        if not isinstance(records, Records):
            return None
        try:
            check_values(records, self._settings.max_message)
        except RefusedError as error:
            return error
        prepared = self._prepare(records)
        new = reseal(batch, prepared) if prepared is not records else None
        sent = len(batch.data if new is None else new)
        return Prepared(new, self._target(limit, NO_ID, 0).size_in_log(batch.header.codec, sent, len(prepared.payload)))

    def _prepare(self, records: Records) -> Records:
        """Without headers of messages that were assembled before, and with `_t` where it is configured."""
        records = strip_delivered(records)
        return with_timestamps(records, now_ms()) if self._settings.timestamp_header else records

    def _read(self, partition: PartitionRecords, batch: Batch, max_inflated: int) -> Records | CodecError | None:
        """The records, or why they cannot be read; None: the broker will reject the batch."""
        if find_fault(batch) is not None:
            return None
        try:
            return partition.records(max_inflated)
        except CodecError as error:
            return error

    def _split(
        self, partition: PartitionRecords, batch: Batch, limit: TopicLimit, whole: Prepared | None
    ) -> Steps[None]:
        """Store slices, and have the carrier sent in place of the batch.

        ``whole``: what is sent instead where it cannot be split, if the broker may accept that.
        """
        run = self._run
        target = self._target(limit, (yield from self._find_id()), partition.index)
        requests = SliceRequests(run.request, run.spans, run.version, partition.key, partition.index)
        may_retry = True
        while True:
            found = yield self._work(partial(self._divide, partition, batch, target), batch)
            if not isinstance(found, Split):
                if whole is not None and found is not None and found.reason in REFUSALS_OF_LARGE:
                    self._go_on(partition, whole)
                else:
                    self._refuse(partition, found)
                return
            sending, slices = self._begin(partition, found)
            stopped = yield from store(slices, requests, run.client)
            if stopped is None:
                yield from self._carry(partition, found, sending, slices)
                return
            del run.sending[partition.key, partition.index]
            if stopped.error is None:
                self._reject(partition, "sent_again", GOES_ON)
                return
            run.settle(sending, stopped.error.error_code, is_carrier=False)
            if not may_retry or stopped.error.error_code != ErrorCode.MESSAGE_TOO_LARGE:
                self._reject(partition, "slice", _explain(stopped.error))
                return
            may_retry = False
            target = yield from self._lower_target(target)

    def _begin(self, partition: PartitionRecords, found: Split) -> tuple[Sending, list[Slice]]:
        """The slices of a batch, of which an attempt before may have stored some."""
        run, header = self._run, found.batch.header
        store = run.services.progress
        # Without all replicas a stored slice may be lost, and each attempt has its own in a compacted topic.
        begin = store.begin if run.spans.acks == ALL_REPLICAS and not found.target.is_compacted else Progress
        progress = [begin(value.mark, value.random, run.client) for value in found.values]
        sending = run.sending[partition.key, partition.index] = Sending(self._topic, progress, header.producer_id >= 0)
        slices = [
            Slice(parts, one, number)
            for value, one in zip(found.values, progress, strict=True)
            for number, parts in enumerate(value.cut.slices)
        ]
        for one in progress:
            store.keep(one, {made.number: made.print for made in slices if made.progress is one})
        run.services.report.reused(sum([one.offset is not None for one in slices]))
        return sending, slices

    def _lower_target(self, target: Target) -> Steps[Target]:
        """The topic allows less than is known of it: what the broker says, or slices of half the size."""
        limit = yield from self._ask()
        if limit.max_batch >= target.max_batch and limit.codec == target.codec:
            limit = self._run.services.topic_limits.lower(self._topic, limit, target.max_slice // 2)
        return self._target(limit, target.topic_id, target.partition)

    def _target(self, limit: TopicLimit, topic_id: bytes, partition: int) -> Target:
        run = self._run
        return Target(
            self._topic, topic_id, partition, limit.max_batch, limit.is_compacted, self._settings,
            run.services.random, limit.codec, run.sender, run.services.progress.random_of,
        )  # fmt: skip

    def _find_id(self) -> Steps[bytes]:
        """The topic's id, zeros if the cluster has none."""
        topic_id = self._topic_id if self._topic_id != NO_ID else self._run.services.id_of(self._topic)
        if topic_id == NO_ID:
            topic_id = ((yield TopicIds((self._topic,))) or {}).get(self._topic, NO_ID)
        return topic_id

    def _divide(self, partition: PartitionRecords, batch: Batch, target: Target) -> Split | RefusedError | None:
        """The slices and their carrier; None: the batch goes on as it is."""
        records = self._read(partition, batch, self._max_inflated)
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

    def _carry(
        self, partition: PartitionRecords, found: Split, sending: Sending, slices: Sequence[Slice]
    ) -> Steps[None]:
        for one in sending.progress:
            one.is_final = not sending.is_idempotent
        carrier = partial(found.carrier, [one.offset or 0 for one in slices])
        partition.replace((yield self._work(carrier, found.batch)) if found.batch.header.codec else carrier())
        if slices:
            large = [(NO_OFFSET, one.cut.header.count) for one in found.values]
            self._run.large[partition.key, partition.index] = large
            self._run.services.report.was_split(len(large), len(slices), sum(size_of(one.parts) for one in slices))

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
