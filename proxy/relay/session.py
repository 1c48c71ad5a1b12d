"""One client connection joined to one broker connection, without the sockets: bytes in, bytes out.

What leaves towards the other peer is what the feeding methods return; `closing` says that both connections must end,
and why. Responses keep request order (design D6): `_waiting` holds what waits for a response, oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct

from kafka_sidecar.codec.errors import CodecError, TooManyError, bare
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.codec.response_status import MAX_STATUS_BYTES
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.relay.acks import AcksMemo
from kafka_sidecar.proxy.relay.exchange import Closing, Exchange, FetchSession, Gate, Look, Pass, RouteError, Send
from kafka_sidecar.proxy.relay.exchange_driver import (
    MAX_COLLECTED_BYTES,
    UNCHANGED,
    Driver,
    LoopBudget,
    RequestDriver,
    ResponseDriver,
)
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.introduction import MIN_REQUEST_BYTES, check_length, diagnose, introduce
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.relay.mute import MUTE, Marking, Mute, marked_frame, tell
from kafka_sidecar.proxy.relay.responses import (
    DEFAULT_RECORDED,
    MIN_RESPONSE_BYTES,
    NO_RESPONSE,
    OWN_RESPONSE,
    RESPONSE,
    OwnRequests,
    Recorded,
    Recorder,
    Waiting,
    abandon,
    mismatch,
    take_answers,
)
from kafka_sidecar.proxy.relay.routes import ANY, WATCHED, PrefixMemo, Rewrite, Route, Routes, known_of
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedResponse
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts

# length int32 | api key int16, api version int16 (read as one number) | correlation id int32 | ...
REQUEST = Struct(">iIi")
# Responses of our own that wait for an earlier one of the broker; otherwise unbounded.
MAX_QUEUED_LOCAL_BYTES = 4 << 20
STATUS_END = RESPONSE.size + MAX_STATUS_BYTES
STOPPED = CodecError("the client's requests are read no more")


class Session:
    """One client's conversation with one broker.

    Pass on what `from_client` or `from_broker` returns and then what `to_client` returns. Then do what stands in
    `agenda`. Once `closing` is set, end both connections.
    """

    __slots__ = (
        "_acks_at", "_client_frames", "_client_id", "_client_software", "_clock", "_is_lost", "_max_frame", "_now",
        "_own_waiting", "_principal", "_request_driver", "_response_driver", "_resumed_at", "_sought", "_unanswered",
        "_waiting", "account", "agenda", "broker_frames", "closing", "due", "fetch_session", "fetch_state",
        "finishing", "gates", "has_closed", "host", "limited", "login", "memo", "muted_by", "muted_until", "number",
        "opened", "record", "recorder", "reports_running", "requests", "routes", "tap_state",
    )  # fmt: skip

    host: str | None
    closing: Closing | None
    finishing: Closing | None  # becomes `closing` once all that waits for a response has it

    def __init__(
        self, routes: Routes, clock: Callable[[], float], max_frame: int, budget: LoopBudget, memory: MemoryBudget,
        recorded: int = DEFAULT_RECORDED,
    ) -> None:  # fmt: skip
        # Who the client is, as far as it has said so; what is known of that is forgotten where it changes.
        self._client_id: str | None = None
        self._client_software: str | None = None
        self._principal: str | None = None
        self.memo = PrefixMemo()
        self.tap_state: object | None = None
        self.limited: object | None = None
        self.login: object | None = None
        self.opened: object | None = None
        self.routes = routes
        self._clock = clock  # monotonic seconds
        self._max_frame = max_frame
        self.account = Account(memory)
        self._client_frames = Frames(
            self._begin_request,
            REQUEST.size,
            self.account,
            lambda: self._request_driver.pauses(self._now, self._resumed_at),
        )
        self.broker_frames = Frames(
            self._begin_response,
            RESPONSE.size,
            self.account,
            lambda: self._response_driver.pauses(self._now, self._resumed_at),
        )
        self._waiting: deque[Waiting] = deque()
        self._own_waiting = 0  # requests of our own among them
        self._now = self._resumed_at = 0.0
        self.muted_until = 0.0  # when the client is read again, by the clock
        self.muted_by = ""  # the name of a rate limit
        self._acks_at = AcksMemo().find
        self.recorder = Recorder(recorded, self._waiting)
        self.record: Callable[[Recorded], None] = self.recorder.add
        self.due = 0  # bytes of responses of our own in _waiting
        self.number = 0  # of the connection
        self.host = self.closing = self.finishing = None
        self.has_closed = False
        self.fetch_state: object | None = None
        self.fetch_session: FetchSession | None = None
        self.reports_running = self.requests = 0
        self.gates: Sequence[Gate] = ()  # that requests have to pass now
        self._request_driver = RequestDriver(self._client_frames, self, clock, budget)
        self._response_driver = ResponseDriver(self.broker_frames, self, clock, budget)
        # What has to be done now, in order: perform the need of a driver and `resume` it, or resume it with answers.
        self.agenda: list[Driver | OwnRequests | Mute] = []
        self._sought: OwnRequests | None = None  # whose answers come after a response that waits for them
        self._is_lost = False
        self._unanswered = 0  # requests that get no response: acks=0

    @property
    def client_id(self) -> str | None:
        return self._client_id

    @client_id.setter
    def client_id(self, client_id: str | None) -> None:
        if client_id != self._client_id:
            self._client_id, self.tap_state, self.limited = client_id, None, None
            self.memo.clear()  # what its limits count is remembered there

    @property
    def client_software(self) -> str | None:
        return self._client_software

    @client_software.setter
    def client_software(self, software: str | None) -> None:
        if software != self._client_software:
            self._client_software = software
            self.memo.clear()  # what a client of this software may do is remembered there

    @property
    def principal(self) -> str | None:
        return self._principal

    @principal.setter
    def principal(self, principal: str | None) -> None:
        if principal != self._principal:
            self._principal, self.tap_state, self.limited = principal, None, None
            self.memo.clear()  # what a principal may do is remembered there

    @property
    def in_flight(self) -> int:
        """Requests of the client whose response has not begun to arrive."""
        return len(self._waiting) - self._own_waiting + self._request_driver.is_busy

    @property
    def oldest_since(self) -> float | None:
        """When the oldest request without a response came, by the session's clock; None: there is none."""
        if self._waiting:  # in the order in which they came
            return self._waiting[0][2]
        return self._request_driver.busy_since

    @property
    def responses(self) -> int:
        return self.requests - self._unanswered - self.in_flight

    def from_client(self, chunk: bytes) -> bytes:
        """What goes to the broker."""
        self._now = self._clock()
        out = self._client_frames.feed(chunk)
        if (error := self._client_frames.error) is not None and error is not STOPPED:
            self._fail(error, "unreadable_request")
        return out

    def from_broker(self, chunk: bytes) -> bytes:
        """What goes to the client."""
        self._now = self._clock()
        out = self.broker_frames.feed(chunk)
        if self._sought is not None and self._sought.may_be_answered(len(chunk)):
            self._find_answers(self._sought)
        if self.broker_frames.error is not None:
            self._fail(self.broker_frames.error, "unreadable_response")
        return out

    @property
    def spent_s(self) -> float:
        """How long it has been at what was read last."""
        return self._clock() - self._now

    def is_request_driver(self, driver: Driver) -> bool:
        """Whether the driver pauses the client's direction, and what it lets go is for the broker."""
        return driver is self._request_driver

    def resume(self, driver: Driver, result: object, error: BaseException | None = None) -> bytes:
        """What goes on now that a driver's need is met: to the broker if it `is_request_driver`, else to the client.

        With ``error`` it could not be met; what the exchange does not handle is raised.
        """
        is_request = driver is self._request_driver
        self._resumed_at = self._clock()
        try:
            out = driver.resume(result, error)
            return out + (self.from_client(b"") if is_request else self.from_broker(b""))
        except CodecError as failure:
            self._fail(failure, "unreadable_request" if is_request else "unreadable_response")
            return b""

    def send(self, driver: Driver, need: Send) -> tuple[bytes, ...]:
        """The requests of our own that go to the broker now; `agenda` says when all are answered."""
        own = OwnRequests(driver, len(need.frames), need.take)
        for frame in need.frames:
            _, key_version, correlation_id = REQUEST.unpack_from(frame)
            route = self.routes.get(key_version) or self.routes.add(key_version)
            self._waiting.append((route, correlation_id, self._now, len(frame), own, None))
        self._own_waiting += len(need.frames)
        if need.take is not None:
            self.agenda.append(OwnRequests(driver, 0))
        elif driver is self._response_driver:
            self._sought = own
        return need.frames  # not joined: they may be megabytes

    def mute(self, until: float, why: str) -> None:
        """Read nothing more of the client until then, by the clock, for a rate limit; its responses say so."""
        if until > self.muted_until:
            self.muted_until, self.muted_by = until, why
            if MUTE not in self.agenda:
                self.agenda.append(MUTE)

    @property
    def muted_s(self) -> float:
        """For how long the client is not read from now on."""
        return max(self.muted_until - self._clock(), 0.0)

    def marked(self, route: Route, frame: bytes | Pieces) -> bytes | Pieces:
        """A response, which says for how long the client is not read if it is not."""
        left = self.muted_until - self._clock() if self.muted_until else 0.0
        return marked_frame(route.api.key, route.api.version, frame, left) if left > 0 else frame

    def finish(self, closing: Closing) -> None:
        """End once all requests that have been read have their response; call `to_client` to see whether they have."""
        if self.finishing is None:
            self.finishing = closing
            self.due += 1  # so that `to_client` is called after each response

    @property
    def incomplete(self) -> tuple[bool, bool]:
        """Whether only a part of a request was read, and of a response."""
        return self._client_frames.is_mid_frame, self.broker_frames.is_mid_frame

    @property
    def awaits_responses(self) -> bool:
        """Whether a request that was read has no response yet."""
        return self.in_flight > 0 or self.is_forwarding

    @property
    def is_forwarding(self) -> bool:
        """Whether a request that was read whole has yet to leave for the broker."""
        return self._client_frames.is_held

    def client_ended(self) -> None:
        """The client has closed: if all that it ever sent was too short for a request, say what it looks like."""
        self.has_closed = True
        abandon(self._waiting)
        if not self.requests and (sentence := diagnose(self._client_frames.carry)) is not None:
            self._fail(RouteError("not_kafka", sentence), "not_kafka")

    def broker_ended(self) -> None:
        """The broker has closed: a TLS alert is shorter than any response."""
        if not self.responses and (sentence := diagnose(self.broker_frames.carry)) is not None:
            self._fail(CodecError(sentence), "unreadable_response")

    def lost(self, why: str) -> list[Work]:
        """The connection has ended: no response comes to what waits for one. What has to be done for that."""
        if self._is_lost:
            return []
        self._is_lost = True
        self._client_frames.drop()
        if isinstance(edit := self.broker_frames.drop(), WatchedResponse | Marking):
            edit.lost(why)
        works = [self._response_driver.lost(why)]  # in the order in which the requests came
        for *_, owner, watch in self._waiting:
            if watch is not None:
                watch.lost(why)
            if owner is not None and not isinstance(owner, OwnRequests):
                works.append(owner.lost(why))
        works.append(self._request_driver.lost(why))
        self._let_go()
        return [work for work in works if work is not None]

    def _let_go(self) -> None:
        """Of all that may hold a frame: the session itself is garbage in circles, which may take minutes to be found.

        What a log line says of the connection's end stays: what waited for a response, by its header.
        """
        waiting = [
            (route, waits if isinstance(waits, int) else waits[: RESPONSE.size], since, size, None, None)
            for route, waits, since, size, owner, _ in self._waiting
            if not isinstance(owner, OwnRequests)
        ]
        self._waiting.clear()
        self._waiting.extend(waiting)
        self._own_waiting, self._sought = 0, None
        self.agenda.clear()
        self.memo.clear()
        self.gates, self.fetch_state, self.limited = (), None, None

    def to_client(self) -> bytes:
        """Responses of our own whose turn has come."""
        if not self.due or not self.broker_frames.between_frames:
            return b""
        frames = self._own_responses()
        if self.finishing is not None and self.closing is None and not self.awaits_responses:
            self.closing = self.finishing
        return b"".join(frames)

    def _own_responses(self) -> list[bytes]:
        frames: list[bytes] = []
        while self._waiting and isinstance(frame := self._waiting[0][1], bytes):
            route, _, since, size, *_ = self._waiting.popleft()
            correlation_id = RESPONSE.unpack_from(frame)[1]
            self.record((route.api, correlation_id, since, size, self._now, len(frame), OWN_RESPONSE))
            self.due -= len(frame)
            frames.append(whole(self.marked(route, frame)))
        return frames

    def _fail(self, error: CodecError, cause: str) -> None:
        bare(error)  # where it was raised it may be kept
        if isinstance(error, TooManyError):
            error = RouteError("too_many_partitions", f"{error} (limits.max_partitions)")
        if self.closing is None:
            self.closing = Closing(error.cause if isinstance(error, RouteError) else cause, str(error))

    def _begin_request(self, data: bytes, at: int) -> int:
        length, key_version, correlation_id = REQUEST.unpack_from(data, at)
        route = self.routes.get(key_version)
        if (
            route is None
            or not route.passes
            or self.gates
            or not self.requests
            or not MIN_REQUEST_BYTES <= length <= self._max_frame
        ):
            return self._begin_any(route, data, at, length, key_version, correlation_id)
        size: int = length + 4
        if route.is_produce:
            acks_at = self._acks_at(route.version, data, at, size)
            if acks_at is None:
                return 0
            is_answered = data[acks_at] | data[acks_at + 1]
        else:
            is_answered = 1
        self.requests += 1
        counts = route.counts
        counts.requests += 1
        counts.request_bytes += size
        if is_answered:
            self._waiting.append((route, correlation_id, self._now, size, None, None))
        else:
            self._unanswered += 1
            self.record((route.api, correlation_id, self._now, size, None, 0, NO_RESPONSE))
        return size

    def _begin_any(  # noqa: C901 - each request pays for a call
        self, route: Route | None, data: bytes, at: int, length: int, key_version: int, correlation_id: int
    ) -> int:
        """As `_begin_request`, of a request that may be more than relayed and counted."""
        if route is None or not MIN_REQUEST_BYTES <= length <= self._max_frame or length > route.max_bytes:
            route = self._unusual_request(data[at:], length, key_version)
        size: int = length + 4
        waits: int | bytes | None = correlation_id  # or our own response; None: there is none
        gates = self.gates and [gate for gate in self.gates if gate.holds(route.key, route.answer is not None)]
        known = self.memo.find(route, key_version, data, at, size) if route.glances else None
        if route.is_produce:
            acks = known.acks if known is not None else None
            if acks is None:
                acks_at = self._acks_at(route.version, data, at, size)
                if acks_at is None:
                    return 0
                acks = data[acks_at] | data[acks_at + 1]
            if not acks:
                waits = None
                self.record((route.api, correlation_id, self._now, size, None, 0, NO_RESPONSE))
        elif route.answer is not None and not gates:
            self._client_frames.swallow()
            waits = self._own(route, route.answer(correlation_id), size)
        if not self.requests or route.introduces:
            introduce(self, data[at : at + size])
        self.requests += 1
        counts = route.counts
        counts.requests += 1
        counts.request_bytes += size
        tap, exchange, relays = route.tap, None, False
        if route.glances:
            if known is not None:
                exchange = known.start() if known.start is not None else None
                is_watched, relays = known.is_watched, known.relays
            else:
                exchange, is_watched = self._look(route, key_version, data, at, size)
            if not is_watched:
                tap = None
        if gates or (exchange is not None and not relays):
            self._request_driver.take(route, exchange, correlation_id if waits is not None else None, tap, gates)
            return size
        watch = (
            None
            if tap is None
            else tap.show_request(self, self.tap_state, self._client_frames, data, at, size, waits, self._now)
        )
        if waits is not None:
            self._waiting.append((route, waits, self._now, size, exchange, watch))
        else:
            self._unanswered += 1
        return size

    def _look(self, route: Route, key_version: int, data: bytes, at: int, size: int) -> tuple[Exchange | None, bool]:
        """The exchange that the request needs, if it needs one, and whether the route's tap is to be shown it."""
        found: Exchange | Look | Pass | None = ANY
        if route.exchange is not None:
            found = route.exchange(data, at, size, self)
        seen = route.seen(self, data, at, size)
        known = known_of(route, found, seen) if isinstance(found, Look | Pass) else None
        exchange = found.start() if isinstance(found, Look) else None if isinstance(found, Pass) else found
        if known is not None:
            if route.is_produce:
                known.acks = self._acks_within(route, data, at, size, known.end)
            self.memo.note(key_version, known)
        elif exchange is not None or (seen.is_watched and seen is not WATCHED):
            self.memo.forget(key_version)  # what is known may be of another fetch session than the one that begins
        return exchange, seen.is_watched

    def _acks_within(self, route: Route, data: bytes, at: int, size: int, end: int) -> int | None:
        """The acks of a Produce request, if they are in its first ``end`` bytes."""
        acks_at = self._acks_at(route.version, data, at, size)
        return data[acks_at] | data[acks_at + 1] if acks_at is not None and acks_at + 2 <= at + end else None

    # What the drivers call

    def expect(
        self,
        route: Route,
        correlation_id: int | None,
        exchange: Exchange | None,
        size: int,
        since: float,
        watch: Watch | None,
    ) -> None:
        if correlation_id is None:
            self._unanswered += 1
        else:
            self._waiting.append((route, correlation_id, since, size, exchange, watch))

    def respond(self, route: Route, frame: bytes, size: int, since: float) -> None:
        self._waiting.append((route, self._own(route, frame, size), since, size, None, None))

    def end_after(self, cause: str, detail: str) -> None:
        self._unanswered += 1
        self.stop_reading(Closing(cause, detail))

    def stop_reading(self, closing: Closing) -> None:
        """Discard all further requests; end once those that have been read have their response."""
        self._client_frames.stop(STOPPED)
        self.finish(closing)

    def watch(self, tap: Tap, frame: bytes, since: float) -> Watch | None:
        # What becomes of its response is seen where the exchange has decided.
        return tap.show_request(self, self.tap_state, self._client_frames, frame, 0, len(frame), True, since)

    def paused(self, driver: Driver) -> None:
        self.agenda.append(driver)

    def _own(self, route: Route, frame: bytes, size: int) -> bytes:
        """Answer a request of ``size`` bytes here; nothing of it goes to the broker."""
        if self.due >= MAX_QUEUED_LOCAL_BYTES:
            raise RouteError("too_many_requests", f"{self.due} bytes of local responses wait for one of the broker's")
        self.due += len(frame)
        route.counts.answered += 1
        route.counts.answered_bytes += size
        route.counts.rewritten_bytes += len(frame)
        return frame

    def _begin_response(self, data: bytes, at: int) -> int:  # noqa: C901 - each response pays for a call
        length, correlation_id = RESPONSE.unpack_from(data, at)
        if self.due:
            for frame in self._own_responses():
                self.broker_frames.insert(frame)
        waiting = self._waiting
        if not waiting or waiting[0][1] != correlation_id or length < MIN_RESPONSE_BYTES:
            raise CodecError(self._unexpected(data[at:], length, correlation_id))
        route, _, since, request_size, owner, watch = waiting.popleft()
        size: int = length + 4
        rewrite = route.rewrite
        if owner is None and size > MAX_COLLECTED_BYTES and rewrite is not None and rewrite.stream is None:
            owner = UNCHANGED
        if owner is not None:
            self._check_collected(route, size)
            if isinstance(owner, OwnRequests):
                self._own_waiting -= 1
                self.broker_frames.collect(partial(self._own_answer, owner))
                return size
            self._response_driver.take(route, owner, watch)
        else:
            if rewrite is not None:
                try:
                    whole = len(data) >= at + size
                    if not whole or rewrite.wanted is None or rewrite.wanted(data, at, at + size):
                        self._edit_response(route, rewrite, size, whole)
                except CodecError as error:
                    if watch is not None:
                        watch.lost(f"the response cannot be read: {error}")  # it is no longer among those that wait
                    raise
            if watch is not None:
                watch.show_response(self.broker_frames, data, at, size, self._now)
            if self.muted_until and self.muted_until > self._now:
                tell(self.broker_frames, route.key, route.version, self.muted_until - self._now)
        counts = route.counts
        counts.responses += 1
        counts.response_bytes += size
        microseconds = int((self._now - since) * 1e6)
        counts.latency_us += microseconds
        counts.latency[microseconds.bit_length()] += 1
        start = data[at + RESPONSE.size : at + STATUS_END] if route.has_status else b""
        self.record((route.api, correlation_id, since, request_size, self._now, size, start))
        return size

    def _own_answer(self, own: OwnRequests, frame: bytes) -> bytes:
        """A response to a request of our own, which the client does not see."""
        if own.add(frame):
            self.agenda.append(own)
        return b""

    def _find_answers(self, own: OwnRequests) -> None:
        """Take the answers that a response waits for from among the frames after it; the others stay in their order."""
        before = len(self._waiting)
        try:
            self.broker_frames.put_back(take_answers(own, self.broker_frames.take_carry(), self._waiting))
        except CodecError as error:
            self._fail(error, "unreadable_response")
        self._own_waiting -= before - len(self._waiting)
        if own.are_answered:
            self._sought = None
            self.agenda.append(own)

    def _check_collected(self, route: Route, size: int) -> None:
        if size > self._max_frame:
            raise CodecError(f"a {route.counts.name} response of {size} bytes is over connections.max_frame")

    def _edit_response(self, route: Route, rewrite: Rewrite, size: int, whole: bool) -> None:
        if rewrite.stream is not None and not whole and size > MAX_COLLECTED_BYTES:
            self.broker_frames.edit(rewrite.stream())
            return
        self._check_collected(route, size)
        self.broker_frames.collect(partial(self._apply, rewrite, route.counts, self._now))

    def _apply(self, rewrite: Rewrite, counts: ApiCounts, since: float, frame: bytes) -> bytes:
        new = rewrite.apply(frame)
        counts.add_buffered(len(new) - len(frame), self._clock() - since)
        return new

    def _unusual_request(self, data: bytes, length: int, key_version: int) -> Route:
        """A pair seen for the first time, or no request at all."""
        if not self.requests and (sentence := diagnose(data)) is not None:
            raise RouteError("not_kafka", sentence)
        check_length(length, self._max_frame)
        route = self.routes.get(key_version) or self.routes.add(key_version)
        if length > route.max_bytes:
            detail = f"a {route.counts.name} request of {length} bytes, more than brokers take ({route.max_bytes})"
            raise RouteError("frame_too_large", detail)
        return route

    def _unexpected(self, data: bytes, length: int, correlation_id: int) -> str:
        if not self.responses and (sentence := diagnose(data)) is not None:
            return sentence
        return mismatch(length, correlation_id, self._waiting[0][1] if self._waiting else None)
