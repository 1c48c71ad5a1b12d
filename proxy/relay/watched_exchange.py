"""Watching what an exchange handles: the client's request before it, and the response that the client gets after it.

What is relayed is watched as it passes (watch.py). Nothing is changed, buffered or delayed for that.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, Last, Outcome, Respond, Steps, Work
from kafka_sidecar.proxy.relay.watch import Watch


class WatchedExchange(Exchange):
    """An exchange between what the client sends and what it gets."""

    __slots__ = ("_clock", "_exchange", "_has_response", "_wants_response", "_watch")

    def __init__(self, exchange: Exchange, watch: Watch, has_response: bool, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._watch = watch
        self._has_response = has_response
        self._wants_response = False
        self._clock = clock

    def request(self, frame: bytes) -> Steps[Outcome]:
        self._watch.request(frame, 0, len(frame), True)
        outcome = yield from self._exchange.request(frame)
        if outcome.frame is not frame:
            self._watch.forwarded(b"" if isinstance(outcome, Respond) else outcome.frame)
        self._name_large()
        if isinstance(outcome, Respond):
            self._show(outcome.frame)
        elif isinstance(outcome, Last) or not self._has_response:
            self._watch.unanswered()
        if not isinstance(outcome, Forward):
            return outcome
        self._wants_response = outcome.wants_response
        return Forward(outcome.frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        new = (yield from self._exchange.response(frame)) if self._wants_response else frame
        unhidden = self._exchange.unhidden(frame) if new is not frame else frame
        if new is not unhidden:
            self._watch.received(whole(unhidden))
        self._name_large()
        if isinstance(new, Pieces):
            self._show_pieces(new)
        else:
            self._show(new)
        return new

    def abandoned(self) -> None:
        self._watch.abandoned()

    def lost(self, why: str) -> Work | None:
        self._watch.lost(why)
        return self._exchange.lost(why)

    def _name_large(self) -> None:
        if found := self._exchange.large_messages():
            self._watch.large_messages(found)

    def _show_pieces(self, frame: Pieces) -> None:
        """Without copying what the watch need not see, which may be in a file."""
        watch, left, now = self._watch, len(frame), self._clock()
        for part in frame.parts:
            size = len(part)
            left -= size
            if watch.skip >= size and left:
                watch.skip -= size
            else:
                piece = part if isinstance(part, bytes) else bytes(part)
                watch.response(piece, 0, size, not left, now)

    def _show(self, frame: bytes) -> None:
        self._watch.response(frame, 0, len(frame), True, self._clock())
