"""Runs exchanges: one request and one response at a time, from the whole frame to what is decided about it.

    frame collected --> steps run --> need --> (outside) --> result --> ... --> decided, frames go on
                                  `-----------------------------------> decided

While an exchange needs something, its direction is paused and the other one goes on. The drivers do not wait: what is
needed stands in `need`, and `Session.resume` brings the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.proxy.relay.exchange import TURN, Exchange, Forward, Last, Need, Outcome, Respond, Steps, Work
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.loop_budget import MAX_TURN_S, LoopBudget
from kafka_sidecar.proxy.relay.routes import Rewrite, Route


class Decides(Protocol):
    """What a session does once it is decided what becomes of a request, or something is needed for that."""

    def expect(self, route: Route, correlation_id: int | None, exchange: Exchange | None, size: int) -> None:
        """It goes to the broker, which answers it unless the id is None; the exchange wants the response.

        It had ``size`` bytes.
        """

    def respond(self, route: Route, frame: bytes, size: int) -> None:
        """It is answered by the sidecar; it had ``size`` bytes."""

    def end_after(self, cause: str, detail: str) -> None:
        """It is the last one of this connection, which ends after the responses to earlier ones; it gets none."""

    def paused(self, driver: Driver) -> None:
        """``driver.need`` has to be performed, then `Session.resume` called."""


class Driver:
    """What both directions have in common."""

    __slots__ = (
        "_budget", "_clock", "_exchange", "_frames", "_left", "_route", "_session", "_since", "_size", "_steps", "need",
    )  # fmt: skip

    def __init__(self, frames: Frames, session: Decides, clock: Callable[[], float], budget: LoopBudget) -> None:
        self._frames = frames
        self._session = session
        self._clock = clock
        self._budget = budget
        self._steps: Steps[Any] | None = None
        self._exchange: Exchange | None = None
        self._route: Route | None = None
        self._size = 0  # bytes of the frame that came
        self._since = 0.0
        self._left: tuple[Buffer, ...] = ()
        self.need: Need | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a frame has begun about which nothing is decided yet."""
        return self._exchange is not None

    def resume(self, result: Any, error: BaseException | None = None) -> bytes:
        """What goes on now that the need is met, or could not be. Raises CodecError."""
        self.need = None
        if self._steps is None:  # it was paused between two frames
            return self._frames.release(b"")
        decided = self._run(result, error)
        if self.need is not None:
            return b""
        if isinstance(decided, Pieces):
            self._left, decided = decided.parts, b""
        return self._frames.release(decided)

    def take_left(self) -> tuple[Buffer, ...]:
        """A frame in pieces that `resume` has let go: it goes on before the bytes that `resume` has returned."""
        left, self._left = self._left, ()
        return left

    def pauses(self, began: float) -> bool:
        """Whether others must have a turn before the next frame of what has been read at ``began`` (seconds).

        Then it is paused, until the session resumes it.
        """
        spent_s = self._clock() - began
        if self._budget.spent_s + spent_s < MAX_TURN_S:
            return False
        self._budget.spent_s += spent_s
        self.need = TURN
        self._session.paused(self)
        return True

    def lost(self, why: str) -> Work | None:
        """The connection has ended."""
        exchange, self._exchange = self._exchange, None
        work = exchange.lost(why) if exchange is not None else None
        self._steps, self.need, self._left = None, None, ()  # they hold the frame, and are in circles with the session
        return work

    def _run(self, result: Any = None, error: BaseException | None = None) -> bytes | Pieces:
        """Run the steps until they decide, or need what takes time."""
        assert self._steps is not None
        send, budget, clock = self._steps.send, self._budget, self._clock
        began = clock()
        turn_ends = began + MAX_TURN_S - budget.spent_s
        try:
            need = send(result) if error is None else self._steps.throw(error)
            while need is TURN and clock() < turn_ends:
                need = send(None)
        except StopIteration as done:
            self._steps = None
            return self._decided(done.value)
        finally:
            budget.spent_s += clock() - began
        self.need = need
        self._frames.hold(self._size)
        self._session.paused(self)
        return b""

    def _decided(self, decision: Any) -> bytes | Pieces:
        raise NotImplementedError


class RequestDriver(Driver):
    """The client's direction."""

    __slots__ = ("_correlation_id",)

    def take(self, route: Route, exchange: Exchange, correlation_id: int | None) -> None:
        """Give the request that begins now to the exchange once it is whole. None: it gets no response (acks=0)."""
        self._route, self._exchange, self._correlation_id = route, exchange, correlation_id
        self._frames.collect(self._begin)

    def _begin(self, frame: bytes) -> bytes:
        assert self._exchange is not None
        self._size = len(frame)
        self._steps = self._exchange.request(frame)
        return whole(self._run())

    def _decided(self, decision: Outcome) -> bytes:
        route, exchange = self._route, self._exchange
        assert route is not None
        self._exchange = None
        if isinstance(decision, Forward):
            route.counts.answered_bytes += self._size - len(decision.frame)
            wants_response = exchange if decision.wants_response else None
            self._session.expect(route, self._correlation_id, wants_response, self._size)
            return decision.frame
        if isinstance(decision, Respond):
            self._session.respond(route, decision.frame, self._size)
            return b""
        if isinstance(decision, Last):
            route.counts.answered_bytes += self._size - len(decision.frame)
            self._session.end_after(decision.cause, decision.detail)
            return decision.frame
        raise CodecError(f"an exchange decided {decision!r} about a request")


class ResponseDriver(Driver):
    """The broker's direction."""

    __slots__ = ()

    def take(self, route: Route, exchange: Exchange) -> None:
        """Give the response that begins now to the exchange once it is whole."""
        self._route, self._exchange, self._since = route, exchange, self._clock()
        self._frames.collect(self._begin, gathers=True)

    def _begin(self, frame: bytes) -> bytes:
        assert self._exchange is not None
        self._size = len(frame)
        self._steps = self._exchange.response(frame)
        return whole(self._run())  # between others that leave as one object

    def _decided(self, decision: bytes | Pieces) -> bytes | Pieces:
        route = self._route
        assert route is not None
        self._exchange = None
        if not isinstance(decision, bytes | Pieces):
            raise CodecError("a response cannot be answered or ended")
        if isinstance(decision, bytes):
            decision = _rewritten(decision, route.rewrite)
        route.counts.add_buffered(len(decision) - self._size, self._clock() - self._since)
        return decision


def _rewritten(frame: bytes, rewrite: Rewrite | None) -> bytes:
    """The response with the sidecar's addresses in place of the brokers'."""
    if rewrite is None or (rewrite.wanted is not None and not rewrite.wanted(frame, 0, len(frame))):
        return frame
    return rewrite.apply(frame)
