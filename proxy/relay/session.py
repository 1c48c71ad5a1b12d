"""One client connection joined to one broker connection, without the sockets: bytes in, bytes out.

What leaves towards the other peer is what the feeding methods return; `closing` says that both connections must end,
and why. Answers keep request order (design D6): `_waiting` holds what awaits an answer, oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest
from kafka_sidecar.proxy.relay.acks import CLIENT_ID, acks_at
from kafka_sidecar.proxy.relay.counted import Counted
from kafka_sidecar.proxy.relay.diagnosis import diagnose
from kafka_sidecar.proxy.relay.exchange import Exchange, Passes, RouteError
from kafka_sidecar.proxy.relay.exchange_driver import TakenRequests, TakenResponses
from kafka_sidecar.proxy.relay.frames import Edit, Frames, Swallowed
from kafka_sidecar.proxy.relay.routes import NEWEST_API_VERSIONS, Rewrite, Route, Routes

# length int32 | api key int16, api version int16 (read as one number) | correlation id int32 | ...
REQUEST = Struct(">iIi")
# length int32 | correlation id int32 | ...
RESPONSE = Struct(">ii")
SMALLEST_REQUEST = 8
SMALLEST_RESPONSE = 4
MOST_OWN_BYTES = 4 << 20  # of answers that wait behind one of the broker's: nothing else stops a client's questions
LARGEST_COLLECTED = 64 << 10  # bytes of a response that is rather waited for than streamed
WITH_SOFTWARE = range(3, NEWEST_API_VERSIONS + 1)  # ApiVersions: the client's software name and version (KIP-511)


@dataclass(frozen=True, slots=True)
class Closing:
    """Why a connection must end."""

    cause: str  # a label value of kafka_sidecar_disconnects_total
    detail: str  # one sentence for a person


class Session:
    """One client's conversation with one broker.

    Pass on what `from_client` returns and then what `to_client` returns, and what `from_broker` returns.
    Once `closing` is set, end both connections.
    """

    __slots__ = (
        "_before_acks", "_broker_frames", "_client_frames", "_clock", "_max_frame", "_now", "_passing", "_produced",
        "_routes", "_unanswered", "_waiting", "client_id", "client_software", "closing", "due", "notes", "number",
        "principal", "requests", "taken_requests", "taken_responses",
    )  # fmt: skip

    def __init__(self, routes: Routes, clock: Callable[[], float], max_frame: int) -> None:
        self._routes = routes
        self._clock = clock  # monotonic seconds
        self._max_frame = max_frame
        self._client_frames = Frames(self._begin_request, REQUEST.size)
        self._broker_frames = Frames(self._begin_response, RESPONSE.size)
        # (route, correlation id, when it came); for an answer of our own its frame stands in the id's place
        self._waiting: deque[tuple[Route, int | bytes, float]] = deque()
        self._now = 0.0
        self._before_acks = b""  # of the last Produce request: from its client id to its acks
        self._produced: Route | None = None
        # How requests begin that nobody takes in hand, by api key and version; as long as the row is the same.
        self._passing: dict[int, tuple[Route, bytes]] = {}
        self.due = 0  # bytes of answers of our own in _waiting
        self.number = 0  # of the connection
        self.client_id: str | None = None
        self.client_software: str | None = None
        self.principal: str | None = None
        self.notes: dict[str, object] = {}
        self.closing: Closing | None = None
        self.requests = 0
        self.taken_responses = TakenResponses(self._broker_frames)
        self.taken_requests = TakenRequests(self._client_frames, self.taken_responses, self)
        self._unanswered = 0  # requests that get no answer: acks=0

    @property
    def in_flight(self) -> int:
        """Requests whose answer has not begun to come."""
        return len(self._waiting) + self.taken_requests.in_hand

    @property
    def responses(self) -> int:
        return self.requests - self._unanswered - self.in_flight

    def from_client(self, chunk: bytes) -> bytes:
        """What goes to the broker."""
        self._now = self._clock()
        out = self._client_frames.feed(chunk)
        if self._client_frames.error is not None:
            self._fail(self._client_frames.error, "unreadable_request")
        return out

    def from_broker(self, chunk: bytes) -> bytes:
        """What goes to the client."""
        self._now = self._clock()
        out = self._broker_frames.feed(chunk)
        if self._broker_frames.error is not None:
            self._fail(self._broker_frames.error, "unreadable_response")
        elif self.due:
            out += self.to_client()
        return out

    def request_decided(self) -> bytes:
        """What goes to the broker now that the wait of a request that was held is over."""
        try:
            return self.taken_requests.decided() + self.from_client(b"")
        except CodecError as error:
            self._fail(error, "unreadable_request")
            return b""

    def response_decided(self) -> bytes:
        """What goes to the client now that the wait of a response that was held is over."""
        try:
            return self.taken_responses.decided() + self.from_broker(b"")
        except CodecError as error:
            self._fail(error, "unreadable_response")
            return b""

    def client_ended(self) -> None:
        """The client has closed: if all that it ever sent was too short for a request, say what it looks like."""
        if not self.requests and (sentence := diagnose(self._client_frames.unjudged)) is not None:
            self._fail(RouteError("not_kafka", sentence), "not_kafka")

    def broker_ended(self) -> None:
        """The broker has closed: a TLS alert is shorter than any response."""
        if not self.responses and (sentence := diagnose(self._broker_frames.unjudged)) is not None:
            self._fail(CodecError(sentence), "unreadable_response")

    def lost(self, why: str) -> None:
        """The connection has ended: tell those who have taken requests in hand that no answer comes."""
        self.taken_requests.lost(why)
        self.taken_responses.lost(why)

    def to_client(self) -> bytes:
        """Answers of our own whose turn has come."""
        return b"".join(self._own_answers()) if self.due and self._broker_frames.between_frames else b""

    def _own_answers(self) -> list[bytes]:
        frames: list[bytes] = []
        while self._waiting and isinstance(frame := self._waiting[0][1], bytes):
            self._waiting.popleft()
            self.due -= len(frame)
            frames.append(frame)
        return frames

    def _fail(self, error: CodecError, cause: str) -> None:
        if self.closing is None:
            self.closing = Closing(error.cause if isinstance(error, RouteError) else cause, str(error))

    def _begin_request(self, data: bytes, at: int) -> int:
        length, key_version, correlation_id = REQUEST.unpack_from(data, at)
        route = self._routes.get(key_version)
        if route is None or not SMALLEST_REQUEST <= length <= self._max_frame:
            route = self._unusual_request(data[at:], length, key_version)
        size: int = length + 4
        waits: int | bytes | None = correlation_id
        if route.is_produce:
            here = self._acks_at(route, data, at, size)
            if here is None:
                return 0
            if not data[here] | data[here + 1]:
                waits = None
        elif route.answer is not None:
            self._client_frames.edit = Swallowed()
            waits = self._own(route, route.answer(correlation_id), size)
        if not self.requests or route.introduces:
            self._introduce(data[at : at + size])
        self.requests += 1
        counts = route.counts
        counts.requests += 1
        counts.request_bytes += size
        if route.exchange is not None and (exchange := self._exchange(route, key_version, data, at, size)) is not None:
            self.taken_requests.take(route, exchange, correlation_id if waits is not None else None)
        elif waits is not None:
            self._waiting.append((route, waits, self._now))
        else:
            self._unanswered += 1
        return size

    def _exchange(self, route: Route, key_version: int, data: bytes, at: int, size: int) -> Exchange | None:
        """Who takes the request in hand."""
        known = self._passing.get(key_version)
        if known is not None and known[0] is route and data.startswith(known[1], at + CLIENT_ID):
            return None
        assert route.exchange is not None
        taken = route.exchange(data, at, size, self)
        if isinstance(taken, Passes):
            self._passing[key_version] = (route, taken.head)
            return None
        return taken

    def expect(self, route: Route, correlation_id: int | None) -> None:
        """A request that was in hand goes to the broker; None: without an answer."""
        if correlation_id is None:
            self._unanswered += 1
        else:
            self._waiting.append((route, correlation_id, self._now))

    def own_answer(self, route: Route, frame: bytes, size: int) -> None:
        """A request that was in hand is answered here."""
        self._waiting.append((route, self._own(route, frame, size), self._now))

    def last_request(self, cause: str, detail: str) -> None:
        """A request that was in hand is the last one, and gets no answer."""
        self._unanswered += 1
        self._client_frames.error = RouteError(cause, detail)

    def _acks_at(self, route: Route, data: bytes, at: int, size: int) -> int | None:
        """Where the acks of a Produce request are. What stands before them hardly ever changes on a connection."""
        before = self._before_acks
        here = at + CLIENT_ID + len(before)
        if data.startswith(before, at + CLIENT_ID) and route is self._produced and at + size >= here + 2 <= len(data):
            return here
        found = acks_at(route.version, data, at, size)
        if found is not None:
            self._before_acks, self._produced = data[at + CLIENT_ID : found], route
        return found

    def _own(self, route: Route, frame: bytes, size: int) -> bytes:
        """Answer a request of ``size`` bytes here; nothing of it goes to the broker."""
        if self.due >= MOST_OWN_BYTES:
            raise RouteError("too_many_requests", f"{self.due} bytes of answers wait for one of the broker's")
        self.due += len(frame)
        route.counts.answered += 1
        route.counts.answered_bytes += size
        route.counts.rewritten_bytes += len(frame)
        return frame

    def _begin_response(self, data: bytes, at: int) -> int:
        length, correlation_id = RESPONSE.unpack_from(data, at)
        if self.due:
            for frame in self._own_answers():
                self._broker_frames.insert(frame)
        waiting = self._waiting
        if not waiting or waiting[0][1] != correlation_id or length < SMALLEST_RESPONSE:
            raise CodecError(self._unexpected(data[at:], length, correlation_id))
        route, _, since = waiting.popleft()
        size: int = length + 4
        counts = route.counts
        counts.responses += 1
        counts.response_bytes += size
        microseconds = int((self._now - since) * 1e6)
        counts.latency_us += microseconds
        counts.latency[microseconds.bit_length()] += 1
        rewrite = route.rewrite
        if rewrite is not None:
            whole = len(data) >= at + size
            if not whole or rewrite.wanted is None or rewrite.wanted(data, at, at + size):
                self._broker_frames.edit = self._edit_of(route, rewrite, size, whole)
        return size

    def _edit_of(self, route: Route, rewrite: Rewrite, size: int, whole: bool) -> Edit:
        if rewrite.stream is not None and not whole and size > LARGEST_COLLECTED:
            return rewrite.stream()
        if size > self._max_frame:
            raise CodecError(f"a {route.counts.name} response of {size} bytes is over connections.max_frame")
        return Counted(rewrite.edit(), route, self._clock)

    def _unusual_request(self, data: bytes, length: int, key_version: int) -> Route:
        """A pair seen for the first time, or no request at all."""
        if not self.requests and (sentence := diagnose(data)) is not None:
            raise RouteError("not_kafka", sentence)
        if length > self._max_frame:
            raise RouteError(
                "frame_too_large", f"a request of {length} bytes is over connections.max_frame ({self._max_frame})"
            )
        if length < SMALLEST_REQUEST:
            raise RouteError("not_kafka", f"a request cannot be {length} bytes long")
        return self._routes.get(key_version) or self._routes.add(key_version)

    def _unexpected(self, data: bytes, length: int, correlation_id: int) -> str:
        if not self.responses and (sentence := diagnose(data)) is not None:
            return sentence
        if length < SMALLEST_RESPONSE:
            return f"a response cannot be {length} bytes long"
        if not self._waiting:
            return f"a response that nobody asked for (correlation id {correlation_id})"
        return f"a response to {correlation_id} where {self._waiting[0][1]!r} was due"

    def _introduce(self, frame: bytes) -> None:
        """Remember who the client says it is; what is cut off by a chunk's end or unreadable stays unknown."""
        try:
            header, at = decode_request_header(frame, 4)
            self.client_id = header.client_id
            if header.api_key == ApiKey.API_VERSIONS and header.api_version in WITH_SOFTWARE:
                request, _ = decode(ApiVersionsRequest, frame, header.api_version, at)
                self.client_software = f"{request.client_software_name} {request.client_software_version}"
        except CodecError:
            return
