"""The first stage of a Produce to topics with large messages: refuses what a client must not write itself.

It sees what the client has sent, before interceptors, which may add segments (decision 29).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import BatchTooLargeError, Records
from kafka_sidecar.codec.records.log_validator import InvalidBatch
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.large_messages import back_pointers, lm_header, object_reference
from kafka_sidecar.large_messages.classify import Part, Reader
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.large_messages.splitting import strip_delivered
from kafka_sidecar.plugins.effects import Steps, TimeLeft, Work
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES, is_light, takes_long
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionRejection, summarize, without_errors
from kafka_sidecar.proxy.features.large_messages.services import TIMED_OUT, Services
from kafka_sidecar.proxy.relay.exchange import Client

MAX_INLINE_RECORDS = 1000  # that a batch may have to be looked into while others wait


OURS = (back_pointers.KEY, object_reference.KEY)
PREFIX = lm_header.KEY  # of these names too
LARGE_BYTES = 4096  # in a record: stepping over it is cheaper than searching it
SETTING = "large_messages.topics: accept_segments"


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Why a batch is refused, and which of its records are the reason."""

    error_code: int  # Kafka's
    reason: str  # a label value of metrics
    records: tuple[tuple[int, str], ...]  # index, message


def find_forbidden(records: Records, reader: Reader, is_validated: bool, max_message: int) -> Forbidden | None:
    """Why these records of a client are refused; None: they are not.

    Args:
        is_validated: by policies, each for itself.
        max_message: bytes of the largest value that consumers get.
    """
    may_have_headers = len(records.payload) > LARGE_BYTES * len(records) or PREFIX in records.payload
    if may_have_headers and (forged := _with_our_headers(records)):
        return Forbidden(ErrorCode.INVALID_RECORD, "forged", tuple(forged))
    if not is_validated and (not may_have_headers or len(records.missing_header(lm_header.KEY)) == len(records)):
        return None
    # Headers of messages that were assembled before are removed; what is under them counts.
    parts = sorted(reader.parts(0, strip_delivered(records)).items())
    if is_validated and parts:
        why = f"a segment of a large message, in a topic whose policies validate each record for itself ({SETTING})"
        return Forbidden(ErrorCode.INVALID_RECORD, "segments", tuple((index, why) for index, _ in parts))
    large = [
        (index, f"a segment of a value of {part.segment.size} bytes, more than the {max_message} of max_message")
        for index, part in parts
        if isinstance(part, Part) and part.segment.size > max_message
    ]
    return Forbidden(ErrorCode.MESSAGE_TOO_LARGE, "too_large", tuple(large)) if large else None


def _with_our_headers(records: Records) -> list[tuple[int, str]]:
    found: dict[int, str] = {}
    for name in OURS:
        for index in set(range(len(records))).difference(records.missing_header(name)):
            found.setdefault(index, f"the header {name.decode()}, which only sidecars write ({SETTING})")
    return sorted(found.items())


class SegmentStage(Stage):
    """Looks for segments and references in what clients write themselves; whatever they call themselves."""

    is_stable = True  # until another configuration is applied, and with it new routes

    def __init__(self, services: Services) -> None:
        self._services = services

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        return not topics or any(name is None or self._settings(name) is not None for name, _ in topics)

    def start(self, client: Client, version: int) -> SegmentRun:
        return SegmentRun(self._services)

    def _settings(self, topic: str) -> TopicSettings | None:
        return _checked(self._services, topic)


class SegmentRun(StageRun):
    """One request."""

    __slots__ = ("_time_left", "services")

    wants_response = False

    def __init__(self, services: Services) -> None:
        self.services = services
        self._time_left: TimeLeft | None = None

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None: ...

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicSegments | None:
        settings = _checked(self.services, topic) if topic is not None else None
        return TopicSegments(self, topic, settings) if settings is not None and topic is not None else None

    def time_left(self) -> TimeLeft:
        """For this request; few need it."""
        if self._time_left is None:
            self._time_left = self.services.time_limit.start()
        return self._time_left


class TopicSegments(TopicRun):
    """What a request brings for one topic."""

    __slots__ = ("_reader", "_run", "_settings", "_topic")

    needs_records = True

    def __init__(self, run: SegmentRun, topic: str, settings: TopicSettings) -> None:
        self._run = run
        self._topic = topic
        self._settings = settings
        self._reader = Reader(topic, settings.deserializer)

    def expect(self, partitions: Sequence[PartitionRecords]) -> None: ...

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        if partition.rejection is not None or isinstance(partition.batch, InvalidBatch):
            return None
        if takes_long(partition.valid_batch, MAX_INLINE_RECORDS):
            return self._look(partition)
        found = self._find(partition, MAX_INLINE_BYTES)
        if isinstance(found, BatchTooLargeError):
            return self._look(partition)
        self._settle(partition, found)
        return None

    def _look(self, partition: PartitionRecords) -> Steps[None]:
        limit = max(self._run.services.max_inflated, self._settings.max_message)
        find = partial(self._find, partition, limit)
        try:
            found = yield Work(find, is_light=is_light(partition.valid_batch), limit=self._run.time_left())
        except TimeoutError:
            partition.rejection = TIMED_OUT
            self._run.services.report.refused(self._topic, "timed_out", TIMED_OUT.message)
        else:
            self._settle(partition, found)

    def _find(self, partition: PartitionRecords, limit: int) -> Forbidden | BatchTooLargeError | None:
        """Why the batch is refused, or cannot be looked into; None: it is not, or others say why."""
        try:
            records = partition.records(limit)
            return find_forbidden(records, self._reader, partition.is_validated, self._settings.max_message)
        except BatchTooLargeError as error:
            return error
        except CodecError:
            return None

    def _settle(self, partition: PartitionRecords, found: Forbidden | BatchTooLargeError | None) -> None:
        if not isinstance(found, Forbidden):
            return
        services = self._run.services
        message = summarize([why for _, why in found.records])
        rejection = PartitionRejection(found.error_code, message, found.records)
        if len(found.records) > max(1, services.max_record_errors):
            rejection = without_errors(rejection)
        partition.rejection = rejection
        services.report.refused(self._topic, found.reason, rejection.message)


def _checked(services: Services, topic: str) -> TopicSettings | None:
    """The settings of a topic whose clients may not write everything."""
    settings = services.settings_of(topic)
    return settings if settings is not None and not settings.accept_segments else None
