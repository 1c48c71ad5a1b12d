"""Shows a request and its response to who watches them, in the pieces in which they pass.

This file runs as it is and compiled (watch.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.proxy.relay.exchange import Client, LargeByPartition
from kafka_sidecar.proxy.relay.frames import Edit, Frames


class Watch:
    """One request and its response. Nothing large that is shown may be kept, and no method raises."""

    __slots__ = ("following", "skip")

    def __init__(self) -> None:
        self.skip = 0  # bytes of the frame that come next and need not be shown
        self.following: Watch | None = None  # the next idle one

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        """A piece of the client's frame: data[start:end]. ``last``: the frame ends there."""

    def forwarded(self, frame: bytes) -> None:
        """What goes to the broker in place of the request; nothing where it is empty."""

    def unanswered(self) -> None:
        """The request was shown whole and gets no response: acks=0."""

    def received(self, frame: bytes) -> None:
        """The broker's response, where the client gets another one."""

    def large_messages(self, found: LargeByPartition) -> None:
        """Those that an exchange has split, stored or assembled, before the response is shown."""

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        """A piece of what the client gets. It began to arrive at ``now`` (seconds)."""

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        """A response of ``size`` bytes that begins at data[at] and is relayed; what is still to come, as it comes."""
        if len(data) >= at + size:
            self.response(data, at, at + size, True, now)
            self.done()
        else:
            watched = WatchedResponse.__new__(WatchedResponse)
            watched.begin(self, now, frames.edit(watched))

    def abandoned(self) -> None:
        """The client has closed before the response came, which it does not get. May be called again."""

    def lost(self, why: str) -> None:
        """The connection has ended before the response came."""

    def done(self) -> None:
        """Nothing more is shown, and nothing else refers to this object: it may watch another request."""


class Tap:
    """Watches all requests of one API and version."""

    __slots__ = ()

    def begin(self, client: Client, state: object, now: float) -> Watch:
        """Watch a request.

        Args:
            state: `client.tap_state`, which the session reads in fewer steps than compiled code.
            now: when the request came, in seconds (monotonic).
        """
        raise NotImplementedError

    def show_request(
        self,
        client: Client,
        state: object,
        frames: Frames,
        data: bytes,
        at: int,
        size: int,
        waits: object,
        now: float,
    ) -> Watch | None:
        """Watch a request of ``size`` bytes that begins at data[at] and is relayed; what is still to come, as it comes.

        Args:
            state, now: as of `begin`.
            frames: the client's.
            waits: for which response; None: there is none (acks=0).

        Returns:
            None: its response does not matter.
        """
        watch = self.begin(client, state, now)
        if len(data) >= at + size:
            watch.request(data, at, at + size, True)
            if waits is None:
                watch.unanswered()
        else:
            frames.edit(WatchedRequest(watch, waits is not None))
        return watch


class TapWith(Tap):
    """Has a function begin to watch each request."""

    __slots__ = ("_watch",)

    def __init__(self, watch: Callable[[Client], Watch]) -> None:
        self._watch = watch

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return self._watch(client)


class WatchedRequest:
    """The edit that shows a request that arrives in pieces. It changes nothing."""

    __slots__ = ("_has_response", "_watch", "buffers", "skip")

    def __init__(self, watch: Watch, has_response: bool) -> None:
        self._watch = watch
        self._has_response = has_response
        self.buffers = False
        self.skip = 0

    def feed(self, data: bytes, start: int, end: int, last: bool) -> None:
        watch = self._watch
        watch.skip = self.skip
        watch.request(data, start, end, last)
        self.skip = watch.skip
        if last and not self._has_response:
            watch.unanswered()


class WatchedResponse:
    """The edit that shows a response that arrives in pieces, and has another edit change it."""

    __slots__ = ("_edit", "_given", "_now", "_watch", "buffers", "skip")

    def begin(self, watch: Watch, now: float, edit: Edit | None) -> None:
        """Called once, in place of a constructor, which would take longer."""
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
        if last:
            watch.done()
        if edit is None:
            self.skip = self._given = watch.skip
            return None
        skip = edit.skip - passed
        if skip >= end - start and not last:  # what it would not be shown without a watch
            skip -= end - start
            edit.skip = skip
            new = None
        else:
            edit.skip = skip
            new = edit.feed(data, start, end, last)
            skip = edit.skip
        self.skip = self._given = min(watch.skip, skip)
        return new

    def lost(self, why: str) -> None:
        self._watch.lost(why)
