"""Stores slices: a Produce request for each, on the client's own connection to the broker.

The limits of topics, `max.message.bytes` and `cleanup.policy`, are those that their brokers report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import Struct

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest, decode_response, encode_request, open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafka_sidecar.codec.scan import ProduceSpans, scan_produce
from kafka_sidecar.codec.wire import LENGTH, NO_ID, write_uvarint
from kafka_sidecar.large_messages.cutting import Parts, size_of
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay.exchange import Send

MAX_AGE_S = 30.0  # a limit that is lowered is known after this time at the latest
MAX_TOPICS = 10_000
VERSION = 1  # which every supported broker has
TOPIC = 2  # a type of resource
MAX_BATCH, CLEANUP = "max.message.bytes", "cleanup.policy"
DEFAULT_MAX_BATCH = 1_048_588  # Kafka's; used where the client may not describe the topic


@dataclass(frozen=True, slots=True)
class TopicLimit:
    max_batch: int = DEFAULT_MAX_BATCH  # bytes
    is_compacted: bool = False
    known_at: float = 0.0


class TopicLimits:
    """The limits of topics, remembered for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._limits: dict[str, TopicLimit] = {}

    def find(self, topic: str, size: int) -> TopicLimit | None:
        """The limit for a batch of this size; None: ask the broker. Batches far below an old limit need no request."""
        found = self._limits.get(topic)
        if found is None or (2 * size > found.max_batch and self._clock() - found.known_at > MAX_AGE_S):
            return None
        return found

    def request(self, topic: str, correlation_id: int, client_id: str | None) -> bytes:
        """The frame that asks the broker."""
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=(MAX_BATCH, CLEANUP)
        )
        return encode_request(DescribeConfigsRequest(resources=(resource,)), VERSION, correlation_id, client_id)

    def learn(self, topic: str, frame: bytes) -> TopicLimit:
        """Remember what the broker has answered. Kafka's default where it says nothing, as without permission."""
        found = TopicLimit(known_at=self._clock())
        try:
            (result,) = decode_response(DescribeConfigsResponse, frame, VERSION).message.results
            if result.error_code == ErrorCode.NONE:
                values = {config.name: config.value or "" for config in result.configs}
                found = replace(
                    found, max_batch=int(values[MAX_BATCH]), is_compacted="compact" in values.get(CLEANUP, "")
                )
        except (CodecError, KeyError, ValueError):
            pass
        return self._remember(topic, found)

    def lower(self, topic: str, max_batch: int, is_compacted: bool) -> TopicLimit:
        """Remember that the broker has rejected what was larger than ``max_batch`` bytes."""
        return self._remember(topic, TopicLimit(max_batch, is_compacted, self._clock()))

    def forget(self, topic: str) -> None:
        """The next batch asks the broker again."""
        self._limits.pop(topic, None)

    def _remember(self, topic: str, limit: TopicLimit) -> TopicLimit:
        if len(self._limits) >= MAX_TOPICS:  # clients choose the names
            self._limits.clear()
        self._limits[topic] = limit
        return limit


WINDOW_BYTES = 16 << 20  # of slices that are sent before any is acknowledged
INT32 = Struct(">i")


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of slices."""

    offsets: list[int]  # of those that are stored
    size: int  # bytes of these
    error: PartitionProduceResponse | None  # why the others are not


class SliceRequests:
    """Requests for slices of one partition, which have all that the client's own request for it says."""

    __slots__ = ("_after", "_before", "_is_flexible", "_version")

    def __init__(
        self, request: OpenRequest, spans: ProduceSpans, version: int, topic: str | bytes, partition: int
    ) -> None:
        timeout_ms: int = INT32.unpack_from(request.frame, spans.topics_at - INT32.size)[0]
        name, topic_id = ("", topic) if isinstance(topic, bytes) else (topic, NO_ID)
        data = PartitionProduceData(index=partition, records=b"")
        message = ProduceRequest(
            acks=spans.acks or 1,  # the offsets are needed
            timeout_ms=timeout_ms,
            topic_data=(TopicProduceData(name=name, topic_id=topic_id, partition_data=(data,)),),
        )
        frame = encode_request(message, version, request.correlation_id, request.client_id)
        (topic_span,) = scan_produce(frame, open_request(frame).body_at, version).topics
        (span,) = topic_span.partitions
        self._before, self._after = frame[LENGTH.size : span.records_at], frame[span.records_end :]
        self._version = version
        self._is_flexible = ProduceRequest.declaration_.is_flexible(version)

    def frame(self, parts: Parts) -> bytes:
        """The request for one slice."""
        size = size_of(parts)
        length = write_uvarint(size + 1) if self._is_flexible else LENGTH.pack(size)
        total = len(self._before) + len(length) + size + len(self._after)
        return b"".join((LENGTH.pack(total), self._before, length, *parts, self._after))

    def result(self, frame: bytes) -> PartitionProduceResponse:
        """The response for one slice. Raises CodecError."""
        (topic,) = decode_response(ProduceResponse, frame, self._version).message.responses
        (partition,) = topic.partition_responses
        return partition


def store(slices: Sequence[Parts], requests: SliceRequests) -> Steps[Stored]:
    """Send all slices, many at a time, until one is rejected."""
    offsets: list[int] = []
    size = at = 0
    while at < len(slices):
        end = _window_end(slices, at)
        answers = yield Send(tuple(requests.frame(one) for one in slices[at:end]))
        results = [requests.result(answer) for answer in answers]
        stored = [number for number, one in enumerate(results) if one.error_code == ErrorCode.NONE]
        offsets += [results[number].base_offset for number in stored]
        size += sum(size_of(slices[at + number]) for number in stored)
        if len(stored) < len(results):
            error = next(one for one in results if one.error_code != ErrorCode.NONE)
            return Stored(offsets, size, error)
        at = end
    return Stored(offsets, size, None)


def _window_end(slices: Sequence[Parts], at: int) -> int:
    size = 0
    for end in range(at, len(slices)):
        size += size_of(slices[end])
        if size > WINDOW_BYTES:
            return max(end, at + 1)
    return len(slices)
