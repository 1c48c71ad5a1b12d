"""The second stage of a Produce: `on_send` as it goes, `on_acknowledgement` as it is answered.

Interceptors see what the policies have accepted (design D8), and are notified of what these rejected. A batch that
cannot be read, or whose checksum is wrong, goes on as it came: the broker says what is wrong with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.produce import PartitionProduceResponse
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch, BatchTooLargeError, Codec, reseal
from kafka_sidecar.codec.records.log_validator import InvalidBatch, find_fault
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.interceptors.contract import UNKNOWN, AcknowledgedBatch, Context, SendError
from kafka_sidecar.interceptors.producing import Details, Producers
from kafka_sidecar.plugins.effects import TURN, Steps, TimeLeft, Work
from kafka_sidecar.proxy.exchanges.fetched_stages import FetchServices
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES, MAX_LIGHT_INFLATED, are_light, is_light, takes_long
from kafka_sidecar.proxy.exchanges.produce import Fallback, PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, Results
from kafka_sidecar.proxy.relay.exchange import Client

API = "Produce"
MAX_INLINE_RECORDS = 1000  # that a batch may have to be intercepted while others wait
MAX_INLINE_ACKNOWLEDGEMENTS = 2000  # records: with some interceptors each takes about 10 us
ACKNOWLEDGEMENTS_PER_TURN = 200  # beyond, others have a turn first
NOT_NAMED = SendError("the response does not name the partition")
# Kafka's RetriableException, as far as a Produce may be answered with one.
RETRIABLE = frozenset({2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75, 89, 100, 103})
MIN_RECORD_BYTES = 7
# What one byte can be inflated to at most, by codec: RFC 1951, the formats of snappy and LZ4, RFC 8878 (blocks that
# repeat one byte).
INFLATES_TO = (1, 1032, 22, 255, 32 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(FetchServices):
    clock: Callable[[], int]  # ms since 1970
    stopwatch: Callable[[], float]  # seconds of a clock that is never set
    message_max_bytes: int  # that a batch may grow to

    def context(self, client: Client, version: int, transactional_id: str | None = None) -> Context:
        """Whose Produce, Fetch or ShareFetch it is."""
        return Context(
            self.clock, client.number, client.client_id, client.client_software, client.principal,
            transactional_id=transactional_id, api_version=version, host=client.host,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Intercepted:
    """What interceptors made of a batch."""

    new: bytes | None  # None: the bytes that came
    details: Details | None
    is_larger: bool = False  # than it came, so that it may be too large
    unchanged_details: Details | None = None  # of a larger one, as it came


class SendStage(Stage):
    """The interceptors of producers that are current."""

    is_stable = True  # until others are loaded, and with them new routes

    def __init__(self, chains: Callable[[str], Producers | None], services: Services) -> None:
        self._chains = chains
        self._services = services

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        return not topics or any(name is None or self._chains(name) is not None for name, _ in topics)

    def start(self, client: Client, version: int) -> SendRun:
        return SendRun(self._chains, self._services, client, version)


class SendRun(StageRun):
    """The interceptors of one request."""

    __slots__ = ("_chains", "_client", "_is_reporting", "_time_left", "_version", "context", "services", "waiting")

    context: Context

    def __init__(
        self, chains: Callable[[str], Producers | None], services: Services, client: Client, version: int
    ) -> None:
        self._chains = chains
        self.services = services
        self._client = client
        self._version = version
        self.waiting: dict[PartitionKey, SentBatch] = {}  # whose interceptors are not notified yet
        self._is_reporting = False  # a thread notifies them
        self._time_left: TimeLeft | None = None

    @property
    def wants_response(self) -> bool:
        return bool(self.waiting)

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        self.context = self.services.context(self._client, self._version, spans.transactional_id)

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicInterception | None:
        chain = self._chains(topic) if topic is not None else None
        return TopicInterception(self, topic, chain) if chain is not None and topic is not None else None

    def time_left(self) -> TimeLeft:
        """For this request; few need it."""
        if self._time_left is None:
            self._time_left = self.services.time_limit.start()
        return self._time_left

    def sent(self) -> None:
        now, began = self.services.clock(), self.services.stopwatch()
        for sent in self.waiting.values():
            sent.sent_at, sent.began = now, began

    def answered(self, results: Results) -> Steps[None] | None:
        return self._report(partial(self._acknowledge, results))

    def unanswered(self, rejected: Collection[PartitionKey], why: str) -> Steps[None] | None:
        return self._report(partial(self._acknowledge_unanswered, rejected, SendError(why)))

    def lost(self, why: str) -> Work | None:
        if self._is_reporting:
            return None
        fail, count = partial(self._fail, SendError(why)), self._count
        if self._reports_inline(count):
            fail()
            return None
        self._client.reports_running += 1
        return Work(fail, must_run=True, is_light=are_light(count, self._notified_in_a_turn))

    @property
    def _count(self) -> int:
        """Of records that interceptors are not notified of yet; a batch of none counts too."""
        return sum([sent.count or 1 for sent in self.waiting.values()])

    def _reports_inline(self, count: int) -> bool:
        """Whether to notify the interceptors here: not where that would keep all others waiting, nor where a thread
        still notifies them of earlier requests of this connection (KIP-42: one call at a time, in order).
        """
        if self._client.reports_running or count > MAX_INLINE_ACKNOWLEDGEMENTS:
            return False
        return count <= self._notified_at_once

    @property
    def _notified_at_once(self) -> int:
        """How many records the slowest of the interceptors that wait is notified of in a turn of the loop."""
        return min([sent.chain.notify_pace.records_at_once for sent in self.waiting.values()], default=sys.maxsize)

    @property
    def _notified_in_a_turn(self) -> int:
        """The same, whether or not they may be called there."""
        return min([sent.chain.notify_pace.records_per_turn for sent in self.waiting.values()], default=sys.maxsize)

    def _report(self, notify: Callable[[], None]) -> Steps[None] | None:
        count = self._count
        if not self._reports_inline(count):
            return self._report_in_thread(notify, count)
        if count > ACKNOWLEDGEMENTS_PER_TURN:
            return self._report_in_turn(notify)
        notify()
        return None

    def _report_in_turn(self, notify: Callable[[], None]) -> Steps[None]:
        yield TURN
        notify()

    def _report_in_thread(self, notify: Callable[[], None], count: int) -> Steps[None]:
        self._is_reporting = True
        self._client.reports_running += 1
        try:
            is_light = are_light(count, self._notified_in_a_turn)
            yield Work(notify, must_run=True, is_light=is_light, limit=self.time_left())
        except TimeoutError:
            return  # the thread still notifies them; the client must not wait for that
        self._client.reports_running -= 1

    def _acknowledge(self, results: Results) -> None:
        for key, sent in self._take_sent():
            result: PartitionProduceResponse | None = results.get(key)
            if result is not None:
                sent.acknowledge(self.context, result)
            else:
                sent.fail(self.context, NOT_NAMED)

    def _acknowledge_unanswered(self, rejected: Collection[PartitionKey], error: SendError) -> None:
        for key, sent in self._take_sent():
            if key in rejected:
                sent.fail(self.context, error)
            else:
                sent.acknowledge(self.context, None)

    def _fail(self, error: SendError) -> None:
        for _, sent in self._take_sent():
            sent.fail(self.context, error)

    def _take_sent(self) -> Iterator[tuple[PartitionKey, SentBatch]]:
        """Each once, even if a hook fails."""
        for key in list(self.waiting):
            yield key, self.waiting.pop(key)


class TopicInterception(TopicRun):
    """The interceptors of one topic of a request."""

    __slots__ = ("_chain", "_run", "_topic", "needs_records")

    def __init__(self, run: SendRun, topic: str, chain: Producers) -> None:
        self._run = run
        self._topic = topic
        self._chain = chain
        self.needs_records: bool = chain.needs_records

    def expect(self, partitions: Sequence[PartitionRecords]) -> None:
        chain, services = self._chain, self._run.services
        if not chain.wants_acknowledgements:
            return
        for partition in partitions:
            if isinstance(partition.batch, Batch):
                count = count_records(partition.batch, services.limit)
                sent = SentBatch(self._topic, partition.index, chain, count, services.stopwatch)
                self._run.waiting[partition.key, partition.index] = sent

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        if not self.needs_records or partition.rejection is not None:
            return None
        if isinstance(partition.batch, InvalidBatch):
            if partition.batch.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                self._settle(
                    partition, "old_format"
                )  # a broker before Kafka 4.0 takes it; what it rejects needs no counting
            return None
        if not takes_long(partition.batch, min(MAX_INLINE_RECORDS, self._chain.send_pace.records_at_once)):
            found = self._intercept(partition, min(self._run.services.limit, MAX_INLINE_BYTES))
            if found is not None:
                self._settle(partition, found)
                return None
        return self._intercept_in_thread(partition)

    def _intercept_in_thread(self, partition: PartitionRecords) -> Steps[None]:
        found: Intercepted | str | None = None
        most = self._run.services.limit
        size = partition.size  # that a stage before has inflated
        light = size <= MAX_LIGHT_INFLATED and is_light(partition.valid_batch, self._chain.send_pace.records_per_turn)
        try:
            while found is None:
                intercept = partial(self._intercept, partition, min(most, MAX_LIGHT_INFLATED) if light else most)
                goes_on = size > MAX_INLINE_BYTES
                found = yield Work(intercept, is_light=light, goes_on=goes_on, limit=self._run.time_left())
                light = False
        except TimeoutError:
            found = "timed_out"
        self._settle(partition, found)

    def _intercept(self, partition: PartitionRecords, limit: int) -> Intercepted | str | None:
        """Let the interceptors see the records: what they make of them, or why they cannot see them; None where these
        are over ``limit`` and may be more.
        """
        batch, services, chain = partition.valid_batch, self._run.services, self._chain
        try:
            if find_fault(batch) is not None:
                return "unreadable"
            records = partition.records(limit)
        except BatchTooLargeError:
            return "too_large" if limit == services.limit else None
        except CodecError:
            return "unreadable"
        new = chain.send(self._run.context, self._topic, partition.index, records)
        if new is records:
            return Intercepted(None, chain.collect_details(records))
        sealed = reseal(batch, new)
        if partition.is_split and len(sealed) > len(batch.data):
            return Intercepted(sealed, chain.collect_details(new), True, chain.collect_details(records))
        if len(sealed) > max(services.message_max_bytes, len(batch.data)):
            return Intercepted(None, chain.collect_details(records), True)
        return Intercepted(sealed, chain.collect_details(new))

    def _settle(self, partition: PartitionRecords, found: Intercepted | str) -> None:
        stats = self._run.services.report
        if isinstance(found, str):
            stats.skipped(API, found, self._topic)
            return
        if found.new is None:
            self._keep(partition, found.details, found.is_larger)
            return
        fallback = None
        if found.is_larger:
            keep = partial(self._keep, partition, found.unchanged_details, True, -1)
            fallback = Fallback(self, keep)
        partition.replace(found.new, fallback)
        self._note(partition, found.details)
        stats.batches[API, "changed"] += 1

    def _keep(self, partition: PartitionRecords, details: Details | None, is_too_large: bool, changed: int = 0) -> None:
        """The batch goes on as it came. ``changed``: what to add to the number of changed ones."""
        stats = self._run.services.report
        if is_too_large:
            stats.skipped(API, "would_be_too_large", self._topic)
        self._note(partition, details)
        stats.batches[API, "unchanged"] += 1
        stats.batches[API, "changed"] += changed

    def _note(self, partition: PartitionRecords, details: Details | None) -> None:
        if (sent := self._run.waiting.get((partition.key, partition.index))) is not None:
            sent.details = details


@dataclass(slots=True)
class SentBatch:
    """One batch of a request, until it is known what became of it."""

    topic: str
    partition: int
    chain: Producers
    count: int  # of records; what its header says, as far as that can be
    stopwatch: Callable[[], float]  # seconds of a clock that is never set
    sent_at: int = UNKNOWN  # ms since 1970
    began: float = 0.0  # the same moment by the stopwatch
    details: Details | None = None

    def acknowledge(self, context: Context, result: PartitionProduceResponse | None) -> None:
        """Notify its interceptors; None: there is no response, as with acks=0."""
        if result is None:
            self._notify(context, None, UNKNOWN, UNKNOWN)
        elif result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            # A duplicate has been written before; Kafka's clients take that for success too.
            self._notify(context, None, result.base_offset, result.log_append_time_ms)
        else:
            message = result.error_message or f"the broker responded with error code {result.error_code}"
            bad = {one.batch_index: one.batch_index_error_message or message for one in result.record_errors}
            self.fail(context, SendError(message, result.error_code, result.error_code in RETRIABLE, bad))

    def fail(self, context: Context, error: SendError) -> None:
        """Notify its interceptors that it was not written, or that this is not known."""
        self._notify(context, error, UNKNOWN, UNKNOWN)

    def _notify(self, context: Context, error: SendError | None, base: int, time: int) -> None:
        took_us = int((self.stopwatch() - self.began) * 1e6)
        batch = AcknowledgedBatch(self.topic, self.partition, self.count, context, self.sent_at, base, time, took_us)
        self.chain.notify(batch, self.details, error)


def count_records(batch: Batch, limit: int) -> int:
    """How many records a batch says it holds, limited to as many as fit into ``limit`` bytes: its header may lie."""
    payload = len(batch.data) - BATCH_HEADER_SIZE
    codec = batch.header.codec
    size = payload if codec == Codec.NONE else min(payload * INFLATES_TO[codec], limit)
    return max(0, min(batch.header.count, size // MIN_RECORD_BYTES))
