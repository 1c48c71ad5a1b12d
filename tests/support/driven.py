"""Runs an exchange without a session: each need comes back as a value, which the test compares and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.plugins.effects import Need, Steps, Turn
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, Limits
from kafka_sidecar.proxy.exchanges.messages import MessageExchanges, MessageStage
from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Forward, Last, Respond

# Bytes: the frame that goes on, to the broker or to the client.
Step = bytes | Respond | Last | Need
Perform = Callable[[Need], Awaitable[Any]]


class Driven:
    """One exchange, step by step. Turns of the loop are passed over, unless ``turns`` is set."""

    def __init__(self, exchange: Exchange, turns: bool = False) -> None:
        self.exchange = exchange
        self.turns = turns
        self.wants_response = False
        self._steps: Steps[Any] | None = None

    def request(self, frame: bytes) -> Step:
        """What becomes of the client's frame, or the first thing that is needed for that."""
        self._steps = self.exchange.request(frame)
        return self._run(None)

    def response(self, frame: bytes) -> Step:
        """What becomes of the broker's frame, or the first thing that is needed for that."""
        self._steps = self.exchange.response(frame)
        return self._run(None)

    def answer(self, result: Any = None) -> Step:
        """Give what was needed."""
        return self._run(result)

    def fail(self, error: BaseException) -> Step:
        """What was needed could not be had."""
        return self._run(error, failed=True)

    def lost(self, why: str) -> None:
        """The connection has ended; work is done at once."""
        work = self.exchange.lost(why)
        if work is not None:
            work.run()

    async def finish(self, step: Step, perform: Perform) -> Step:
        """Meet needs until it is decided."""
        while isinstance(step, Need):
            step = self._run(await perform(step))
        return step

    def _run(self, result: Any, failed: bool = False) -> Step:
        assert self._steps is not None
        try:
            need = self._steps.throw(result) if failed else self._steps.send(result)
            while isinstance(need, Turn) and not self.turns:
                need = self._steps.send(None)
        except StopIteration as done:
            self._steps = None
            if isinstance(done.value, Forward):
                self.wants_response = done.value.wants_response
                return done.value.frame
            return whole(done.value) if isinstance(done.value, Pieces) else done.value
        return need


def driven(*stages: MessageStage, version: int, client: Client, limits: Limits = DEFAULT_LIMITS) -> Driven | None:
    """An exchange of these stages, if one of them looks into the client's request."""
    exchange = MessageExchanges(stages, limits).begin(version, b"", 0, 0, client)
    return Driven(exchange) if exchange is not None else None
