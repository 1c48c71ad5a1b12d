"""Stores slices: a Produce request for each, on the client's own connection to the broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest, decode_response, encode_request, open_request
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
from kafka_sidecar.proxy.relay.exchange import Send, Steps

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
