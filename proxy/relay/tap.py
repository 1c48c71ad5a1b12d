"""Watching requests and responses as the client sends and gets them, without changing, buffering or delaying any.

What is relayed is shown in the pieces in which it passes; most frames are one piece. Around an exchange, the request is
shown before it and the response that the client gets after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Forward, Last, Outcome, Respond, Steps, Work
from kafka_sidecar.proxy.relay.frames import Edit, Frames


class Watch:
    """One request and its response. Nothing that is shown may be kept, and no method raises."""

    __slots__ = ()

    @property
    def skip(self) -> int:
        """Bytes of the frame that come next and need not be shown."""
        return 0

    @skip.setter
    def skip(self, size: int) -> None:
        """Some of them have passed."""

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        """A piece of the client's frame: data[start:end]. ``last``: the frame ends there."""

    def forwarded(self, frame: bytes) -> None:
        """What goes to the broker in place of the request; nothing where it is empty."""

    def unanswered(self) -> None:
        """The request was shown whole and gets no response: acks=0."""

    def received(self, frame: bytes) -> None:
        """The broker's response, where the client gets another one."""

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        """A piece of what the client gets. It began to arrive at ``now`` (seconds)."""

    def lost(self, why: str) -> None:
        """The connection has ended before the response came."""


# Begins to watch a request that came at this time (seconds, monotonic).
Tap = Callable[[Client, float], Watch]


class WatchedRequest:
    """The edit that shows a request that arrives in pieces. It changes nothing."""

    __slots__ = ("_has_response", "_watch")
    buffers = False

    def __init__(self, watch: Watch, has_response: bool) -> None:
        self._watch = watch
        self._has_response = has_response

    @property
    def skip(self) -> int:
        return self._watch.skip

    @skip.setter
    def skip(self, size: int) -> None:
        self._watch.skip = size

    def feed(self, data: bytes, start: int, end: int, last: bool) -> None:
        self._watch.request(data, start, end, last)
        if last and not self._has_response:
            self._watch.unanswered()


class WatchedResponse:
    """The edit that shows a response that arrives in pieces, and has another edit change it."""

    __slots__ = ("_edit", "_given", "_now", "_watch", "buffers", "skip")

    def __init__(self, watch: Watch, now: float, edit: Edit | None) -> None:
        self._watch = watch
        self._edit = edit
        self._now = now
        self.buffers = edit is not None and edit.buffers
        self.skip = self._given = 0

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        watch, edit = self._watch, self._edit
        passed = self._given - self.skip
        watch.skip -= passed
        watch.response(data, start, end, last, self._now)
        if edit is None:
            self.skip = self._given = watch.skip
            return None
        edit.skip -= passed
        new = edit.feed(data, start, end, last)
        self.skip = self._given = min(watch.skip, edit.skip)
        return new

    def lost(self, why: str) -> None:
        self._watch.lost(why)


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
        if isinstance(outcome, Respond):
            self._show(outcome.frame)
        elif isinstance(outcome, Last) or not self._has_response:
            self._watch.unanswered()
        if not isinstance(outcome, Forward):
            return outcome
        self._wants_response = outcome.wants_response
        return Forward(outcome.frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        new = (yield from self._exchange.response(frame)) if self._wants_response else frame
        if new is not frame:
            self._watch.received(frame)
        self._show(new)
        return new

    def lost(self, why: str) -> Work | None:
        self._watch.lost(why)
        return self._exchange.lost(why)

    def _show(self, frame: bytes) -> None:
        self._watch.response(frame, 0, len(frame), True, self._clock())


def show_request(
    tap: Tap, client: Client, frames: Frames, data: bytes, at: int, size: int, has_response: bool, now: float
) -> Watch:
    """Show the request of ``size`` bytes that begins at data[at] and is relayed; what is still to come, as it comes."""
    watch = tap(client, now)
    if len(data) >= at + size:
        watch.request(data, at, at + size, True)
        if not has_response:
            watch.unanswered()
    else:
        frames.edit(WatchedRequest(watch, has_response))
    return watch


def show_response(watch: Watch, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
    """Show the response of ``size`` bytes that begins at data[at] and is relayed; what is to come, as it comes."""
    if len(data) >= at + size:
        watch.response(data, at, at + size, True, now)
    else:
        frames.watch(partial(WatchedResponse, watch, now))
