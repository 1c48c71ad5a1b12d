"""Requests and responses that an exchange has taken in hand: collected, decided, held if need be, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.exchange import Answer, Exchange, Hold, Last, Step
from kafka_sidecar.proxy.relay.frames import Collected, Frames
from kafka_sidecar.proxy.relay.routes import Rewrite, Route
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts


class Takes(Protocol):
    """What a session does when it is decided what becomes of a request."""

    def expect(self, route: Route, correlation_id: int | None) -> None:
        """It goes to the broker, which answers it unless the id is None."""

    def own_answer(self, route: Route, frame: bytes, size: int) -> None:
        """It has been answered here; it had ``size`` bytes."""

    def last_request(self, cause: str, detail: str) -> None:
        """It is the last one of this connection and gets no answer."""


class TakenRequests:
    """The client's direction."""

    __slots__ = ("_exchange", "_frames", "_responses", "_session", "_settle", "held", "in_hand")

    def __init__(self, frames: Frames, responses: TakenResponses, session: Takes) -> None:
        self._frames = frames
        self._responses = responses
        self._session = session
        self._settle: Callable[[Step], bytes] = _nothing
        self._exchange: Exchange | None = None  # has the request in hand
        self.held: Hold | None = None  # what the client's direction waits for
        self.in_hand = 0  # 1: a request has begun, and it is not decided what becomes of it

    def take(self, route: Route, exchange: Exchange, correlation_id: int | None) -> None:
        """Give the frame that begins now to the exchange once it is whole."""
        self.in_hand, self._exchange = 1, exchange
        self._frames.edit = Collected(partial(self._whole, route, exchange, correlation_id))

    def decided(self) -> bytes:
        """What goes to the broker now that the wait is over. Raises CodecError."""
        hold, self.held = self.held, None
        decided = self._settle(hold.then()) if hold else b""
        return b"" if self.held is not None else self._frames.go_on(decided)

    def lost(self, why: str) -> None:
        """The connection has ended."""
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            exchange.lost(why)

    def _whole(self, route: Route, exchange: Exchange, correlation_id: int | None, frame: bytes) -> bytes:
        self._settle = partial(self._settled, route, exchange, correlation_id, len(frame))
        return self._settle(exchange.request(frame))

    def _settled(self, route: Route, exchange: Exchange, correlation_id: int | None, size: int, step: Step) -> bytes:
        if isinstance(step, Hold):
            self.held, self._frames.held = step, True
            return b""
        self.in_hand, self._exchange, self._settle = 0, None, _nothing  # which would keep the frame until the next one
        match step:
            case Answer():
                self._session.own_answer(route, step.frame, size)
                return b""
            case Last():
                route.counts.answered_bytes += size - len(step.frame)
                self._session.last_request(step.cause, step.detail)
                return step.frame
        if exchange.wants_response:
            route = replace(route, rewrite=self._responses.rewrite(exchange, route))
        route.counts.answered_bytes += size - len(step)
        self._session.expect(route, correlation_id)
        return step


class TakenResponses:
    """The broker's direction."""

    __slots__ = ("_counts", "_expecting", "_frames", "_settle", "held")

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._counts: ApiCounts | None = None  # of the response that is held
        self._expecting: deque[Exchange] = deque()  # whose response has not come, oldest first
        self._settle: Callable[[Step], bytes] = _nothing
        self.held: Hold | None = None  # what the broker's direction waits for

    def decided(self) -> bytes:
        """What goes to the client now that the wait is over. Raises CodecError."""
        hold, self.held = self.held, None
        decided = self._settle(hold.then()) if hold else b""
        if self.held is not None:
            return b""
        if self._counts is not None:
            self._counts.rewritten_bytes += len(decided)  # all of the frame was taken off when it was held
        return self._frames.go_on(decided)

    def rewrite(self, exchange: Exchange, route: Route) -> Rewrite:
        """How the response to a request is edited that was in hand: by the exchange, then as all responses are."""
        self._expecting.append(exchange)
        return Rewrite(partial(Collected, partial(self._whole, exchange, route)))

    def lost(self, why: str) -> None:
        """The connection has ended."""
        while self._expecting:
            self._expecting.popleft().lost(why)

    def _whole(self, exchange: Exchange, route: Route, frame: bytes) -> bytes:
        self._expecting.popleft()
        self._settle, self._counts = partial(self._settled, route.rewrite), route.counts
        return self._settle(exchange.response(frame))

    def _settled(self, then: Rewrite | None, step: Step) -> bytes:
        if isinstance(step, Hold):
            self.held, self._frames.held = step, True
            return b""
        self._settle = _nothing
        if not isinstance(step, bytes):
            raise CodecError("a response cannot be answered or ended")
        if then is None or (then.wanted is not None and not then.wanted(step, 0, len(step))):
            return step
        new = then.edit().feed(step, 0, len(step), last=True)
        return step if new is None else new


def _nothing(_: object) -> bytes:
    return b""
