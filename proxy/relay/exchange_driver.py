"""Runs exchanges: one request and one response at a time, from the whole frame to what is decided about it.

    frame collected --> steps run --> need --> (outside) --> result --> ... --> decided, frames go on
                                  `-----------------------------------> decided

While an exchange needs something, its direction is paused and the other one goes on. The drivers do not wait: what is
needed stands in `need`, and `Session.resume` brings the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.plugins.effects import TURN, Need, Steps, Work
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, Gate, Last, Outcome, Respond
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.routes import Rewrite, Route
from kafka_sidecar.proxy.relay.watch import Tap, Watch
from kafka_sidecar.proxy.relay.watch_pairs import TimedWatch


class Decides(Protocol):
    """What a session does once it is decided what becomes of a request, or something is needed for that."""

    def expect(
        self,
        route: Route,
        correlation_id: int | None,
        exchange: Exchange | None,
        size: int,
        since: float,
        watch: Watch | None,
    ) -> None:
        """It goes to the broker, which answers it unless the id is None; exchange and watch want the response.

        It had ``size`` bytes and began to arrive at ``since``.
        """

    def respond(self, route: Route, frame: bytes, size: int, since: float) -> None:
        """It is answered by the sidecar; it had ``size`` bytes and began to arrive at ``since``."""

    def end_after(self, cause: str, detail: str) -> None:
        """It is the last one of this connection, which ends after the responses to earlier ones; it gets none."""

    def marked(self, route: Route, frame: bytes | Pieces) -> bytes | Pieces:
        """A response as it leaves: with a throttle time if its client is not read for a while."""

    def watch(self, tap: Tap, frame: bytes, since: float) -> Watch | None:
        """Show a tap a request that has come whole and began at ``since``; None: the rest does not matter to it."""

    def paused(self, driver: Driver) -> None:
        """``driver.need`` has to be performed, then `Session.resume` called."""


class Driver:
    """What both directions have in common."""

    __slots__ = (
        "_budget", "_clock", "_exchange", "_frame", "_frames", "_is_busy", "_left", "_route", "_session", "_since",
        "_size", "_steps", "_watch", "need",
    )  # fmt: skip

    def __init__(self, frames: Frames, session: Decides, clock: Callable[[], float], budget: LoopBudget) -> None:
        self._frames = frames
        self._session = session
        self._clock = clock
        self._budget = budget
        self._steps: Steps[Any] | None = None
        self._exchange: Exchange | None = None
        self._watch: Watch | None = None
        self._is_busy = False
        self._frame = b""  # that came, while a watch may have to compare it
        self._route: Route | None = None
        self._size = 0  # bytes of the frame that came
        self._since = 0.0
        self._left: tuple[Buffer, ...] = ()
        self.need: Need | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a frame has begun about which nothing is decided yet."""
        return self._is_busy

    @property
    def busy_since(self) -> float | None:
        """When that frame began; None: there is none."""
        return self._since if self._is_busy else None

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
        elif len(decided) >= MIN_LARGE_BYTES:  # nothing is appended to it, which would copy it
            self._left, decided = (decided,), b""
        return self._frames.release(decided)

    def take_left(self) -> tuple[Buffer, ...]:
        """A frame in pieces that `resume` has let go: it goes on before the bytes that `resume` has returned."""
        left, self._left = self._left, ()
        return left

    def pauses(self, read_at: float, resumed_at: float) -> bool:
        """Whether others must have a turn before the next frame of what has been read, or waited until ``resumed_at``.

        Then it is paused, until the session resumes it.
        """
        spent_s = self._clock() - (resumed_at if resumed_at > read_at else read_at)
        if self._budget.spent_s + spent_s < MAX_TURN_S:
            return False
        self._budget.spent_s += spent_s
        self.need = TURN
        self._session.paused(self)
        return True

    def lost(self, why: str) -> Work | None:
        """The connection has ended."""
        exchange, watch = self._exchange, self._watch
        self._done()
        if watch is not None:
            watch.lost(why)
        work = exchange.lost(why) if exchange is not None else None
        self._steps, self.need, self._left = None, None, ()  # they hold the frame, and are in circles with the session
        del self._session
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

    def _done(self) -> None:
        self._exchange = self._watch = None
        self._frame = b""
        self._is_busy = False


class RequestDriver(Driver):
    """The client's direction."""

    __slots__ = ("_correlation_id", "_gates", "_tap")

    def take(
        self,
        route: Route,
        exchange: Exchange | None,
        correlation_id: int | None,
        tap: Tap | None = None,
        gates: Sequence[Gate] = (),
    ) -> None:
        """Give the request that begins now to gates and exchange once it is whole.

        Args:
            correlation_id: None: it gets no response (acks=0).
            tap: is shown the request as the client has sent it, and what becomes of it.
        """
        self._route, self._exchange, self._correlation_id = route, exchange, correlation_id
        self._tap, self._gates, self._is_busy = tap, gates, True
        self._since = self._clock()
        self._frames.collect_pieces(self._begin)

    def _begin(self, frame: bytes | Pieces) -> bytes:
        self._size = len(frame)
        exchange = self._exchange
        if exchange is not None and not self._gates and self._tap is None and not isinstance(frame, Pieces):
            self._steps = exchange.request(frame)
        else:
            self._steps = self._join(frame) if isinstance(frame, Pieces) else self._look(frame)
        return whole(self._run())

    def _join(self, pieces: Pieces) -> Steps[Outcome]:
        """What becomes of a large request, which is made one object while others have their turns."""
        frame = yield Work(partial(whole, pieces), is_light=True)
        del pieces  # otherwise held as long as the exchange takes
        return (yield from self._look(frame))

    def _look(self, frame: bytes) -> Steps[Outcome]:
        if self._tap is not None:
            self._watch = self._session.watch(self._tap, frame, self._since)
            if self._watch is not None:
                self._frame = frame
        exchange = self._exchange
        return exchange.request(frame) if exchange is not None and not self._gates else self._enter(frame)

    def _enter(self, frame: bytes) -> Steps[Outcome]:
        """What becomes of a request that has to wait at gates before an exchange looks into it."""
        for gate in self._gates:
            if (outcome := (yield from gate.enter(frame))) is not None:
                return outcome
        exchange = self._exchange
        return (yield from exchange.request(frame)) if exchange is not None else Forward(frame)

    def _decided(self, decision: Outcome) -> bytes:
        route, exchange, watch = self._route, self._exchange, self._watch
        assert route is not None
        if watch is not None:
            self._show(watch, decision)
            self._frame = b""
        self._exchange = self._watch = None
        self._is_busy = False
        route.counts.add_held(self._clock() - self._since)
        if isinstance(decision, Forward):
            route.counts.answered_bytes += self._size - len(decision.frame)
            wants_response = exchange if decision.wants_response else None
            self._session.expect(route, self._correlation_id, wants_response, self._size, self._since, watch)
            return decision.frame
        if isinstance(decision, Respond):
            self._session.respond(route, decision.frame, self._size, self._since)
            return b""
        if isinstance(decision, Last):
            route.counts.answered_bytes += self._size - len(decision.frame)
            self._session.end_after(decision.cause, decision.detail)
            return decision.frame
        raise CodecError(f"an exchange decided {decision!r} about a request")

    def _show(self, watch: Watch, decision: Outcome) -> None:
        if isinstance(watch, TimedWatch):
            watch.decided(self._clock(), isinstance(decision, Respond))
        if decision.frame is not self._frame:
            watch.forwarded(b"" if isinstance(decision, Respond) else decision.frame)
        if self._exchange is not None and (large := self._exchange.large_messages()):
            watch.large_messages(large)
        if isinstance(decision, Respond):
            watch.response(decision.frame, 0, len(decision.frame), True, self._clock())
        elif isinstance(decision, Last) or self._correlation_id is None:
            watch.unanswered()


class ResponseDriver(Driver):
    """The broker's direction."""

    __slots__ = ("_rewrite",)

    def take(self, route: Route, exchange: Exchange, watch: Watch | None) -> None:
        """Give the response that begins now to the exchange once it is whole; the watch is shown what becomes of it.

        Then the sidecar's addresses are put in place of the brokers'.
        """
        self._route, self._exchange, self._since = route, exchange, self._clock()
        self._watch, self._is_busy = watch, True
        if isinstance(watch, TimedWatch):
            watch.arrived(self._since)
        self._rewrite = route.rewrite
        self._frames.collect(self._begin)

    def _begin(self, frame: bytes) -> bytes:
        assert self._exchange is not None
        self._size = len(frame)
        self._frame = frame if self._watch is not None else b""
        self._steps = self._exchange.response(frame)
        return whole(self._run())  # between others that leave as one object

    def _decided(self, decision: bytes | Pieces) -> bytes | Pieces:
        route = self._route
        assert route is not None
        if not isinstance(decision, bytes | Pieces):
            raise CodecError("a response cannot be answered or ended")
        if self._watch is not None:
            self._show(self._watch, decision)
        self._watch = self._exchange = None  # they have seen all of it
        rewrite, self._rewrite = self._rewrite, None
        if rewrite is not None and isinstance(decision, bytes) and is_wanted(rewrite, decision):
            if rewrite.steps is not None and len(decision) > MAX_COLLECTED_BYTES:
                self._steps = rewrite.steps(decision)
                return self._run()
            decision = rewrite.apply(decision)
        decision = self._session.marked(route, decision)
        self._done()
        route.counts.add_buffered(len(decision) - self._size, self._clock() - self._since)
        return decision

    def _show(self, watch: Watch, decision: bytes | Pieces) -> None:
        """What the client gets; before it what producers have sent, where that is something else."""
        exchange = self._exchange
        assert exchange is not None
        unhidden = exchange.unhidden(self._frame) if decision is not self._frame else decision
        if decision is not unhidden:
            watch.received(whole(unhidden))
        if large := exchange.large_messages():
            watch.large_messages(large)
        left, now = len(decision), self._clock()
        # Without copying what the watch need not see.
        for part in decision.parts if isinstance(decision, Pieces) else (decision,):
            size = len(part)
            left -= size
            if watch.skip >= size and left:
                watch.skip -= size
            else:
                watch.response(part if isinstance(part, bytes) else bytes(part), 0, size, not left, now)


def is_wanted(rewrite: Rewrite, frame: bytes) -> bool:
    """Whether a whole response has to be rewritten."""
    return rewrite.wanted is None or rewrite.wanted(frame, 0, len(frame))


class Unchanged(Exchange):
    """Of a long response into which nothing looks, and which is rewritten."""

    __slots__ = ()

    def request(self, frame: bytes) -> Steps[Outcome]:
        return Forward(frame)
        yield


UNCHANGED = Unchanged()


MAX_TURN_S = 0.01
MAX_COLLECTED_BYTES = 64 << 10  # of a response that is rewritten at once rather than streamed, or in steps


class LoopBudget:
    """The time that the exchanges of all connections have taken since others last had a turn."""

    __slots__ = ("spent_s",)

    def __init__(self) -> None:
        self.spent_s = 0.0

    def renew(self) -> None:
        """Others have had their turn."""
        self.spent_s = 0.0
