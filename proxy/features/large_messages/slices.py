"""Stores slices: a Produce request for each, on the client's own connection to the broker.

A batch's objects are stored before it is sent, but not for a client that the broker does not let write. So the broker
is asked first, with a Produce of no records: it checks the login, the topic, the partition and the right to write
before it finds that there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest, decode_response, encode_request, open_request
from kafka_sidecar.codec.errors import CodecError
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
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection
from kafka_sidecar.proxy.features.large_messages.progress import Attempt, Print, Progress
from kafka_sidecar.proxy.relay.exchange import Send

WINDOW_BYTES = 16 << 20  # of slices that are sent before any is acknowledged
INT32, UINT32 = Struct(">i"), Struct(">I")
CRC_AT = 17  # in a batch


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a message, and how far that is."""

    parts: Parts
    progress: Progress
    number: int  # of those of its message

    @property
    def offset(self) -> int | None:
        """Where it is stored; None: it is not."""
        return self.progress.offset(self.number, self.print)

    def is_stored(self, offset: int) -> None:
        self.progress.add(self.number, self.print, offset)

    @property
    def print(self) -> Print:
        return size_of(self.parts), UINT32.unpack_from(self.parts[0], CRC_AT)[0]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why not all slices are stored."""

    error: PartitionProduceResponse | None  # None: the message was sent again, and that attempt goes on with them


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

    def result(self, frame: bytes) -> tuple[PartitionProduceResponse, bool]:
        """The response for one slice, and whether the broker throttles the client. Raises CodecError."""
        response = decode_response(ProduceResponse, frame, self._version).message
        partitions = [one for topic in response.responses for one in topic.partition_responses]
        if len(partitions) != 1:
            raise CodecError(f"a response with {len(partitions)} partitions to a request for one")
        return partitions[0], response.throttle_time_ms > 0


class _Window:
    """Slices that are sent at once, and what becomes of them."""

    __slots__ = ("_requests", "_slices", "error", "is_throttled")

    def __init__(self, slices: Sequence[Slice], requests: SliceRequests) -> None:
        self._slices = iter(slices)
        self._requests = requests
        self.error: PartitionProduceResponse | CodecError | None = None  # the first
        self.is_throttled = False

    def answered(self, frame: bytes) -> None:
        """The next response has come; where the exchange has ended meanwhile, too."""
        one = next(self._slices)
        try:
            result, is_throttled = self._requests.result(frame)
        except CodecError as error:
            self.error = self.error or error
            return
        self.is_throttled = self.is_throttled or is_throttled
        one.progress.is_throttled = is_throttled
        if result.error_code == ErrorCode.NONE:
            one.is_stored(result.base_offset)
        elif self.error is None:
            self.error = result


def store(slices: Sequence[Slice], requests: SliceRequests, attempt: Attempt) -> Steps[Stopped | None]:
    """Send all that are not stored yet, many at a time, until one is rejected. Where the broker throttles the client,
    or has throttled it in an attempt before, one at a time: what is on its way when it gives up is sent again.

    Raises:
        CodecError: a response cannot be read.
    """
    missing = [one for one in slices if one.offset is None]
    at, most = 0, 1 if any(one.progress.is_throttled for one in slices) else len(missing)
    while at < len(missing):
        end = min(at + most, _window_end(missing, at))
        window = _Window(missing[at:end], requests)
        *frames, last = [requests.frame(one.parts) for one in missing[at:end]]
        if frames:
            yield Send(tuple(frames), window.answered)
        (answer,) = yield Send((last,))
        window.answered(answer)
        if isinstance(window.error, CodecError):
            raise window.error
        if window.error is not None:
            return Stopped(window.error)
        if any(one.progress.owner is not attempt for one in slices):
            return Stopped(None)
        at, most = end, 1 if window.is_throttled else 2 * most
    return None


def _window_end(slices: Sequence[Slice], at: int) -> int:
    size = 0
    for end in range(at, len(slices)):
        size += size_of(slices[end].parts)
        if size > WINDOW_BYTES:
            return max(end, at + 1)
    return len(slices)


MAX_AGE_S = 30.0
MAX_KNOWN = 10_000
# What a broker says of no records where the client may write; before Kafka 2.4 they are CORRUPT_MESSAGE, and in the
# versions 0 to 2 of the request nothing is wrong with them.
MAY_WRITE = frozenset({ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


class WriteRights:
    """Where clients may write, as their brokers say: by connection and partition, remembered for a short while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._known = Bounded[tuple[int, PartitionKey], float](MAX_KNOWN)

    def ask(self, connection: int, key: PartitionKey, requests: SliceRequests) -> Steps[PartitionRejection | None]:
        """Why the client of this connection may not write there; None: it may."""
        now = self._clock()
        asked_at = self._known.get((connection, key))
        if asked_at is not None and now - asked_at <= MAX_AGE_S:
            return None
        (answer,) = yield Send((requests.frame((b"",)),))
        result, _ = requests.result(answer)
        if result.error_code not in MAY_WRITE:
            return PartitionRejection(
                result.error_code, result.error_message or "the broker rejects the client's records"
            )
        self._known[connection, key] = now
        return None
