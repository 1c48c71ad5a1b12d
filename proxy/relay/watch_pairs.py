"""Two taps of the same requests, each of which is shown all of them as if it were the only one; and watches that get to
know how long a response is, and how long an exchange has taken."""

from __future__ import annotations

from kafka_sidecar.proxy.relay.exchange import Client, LargeByPartition
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest


def in_turn(first: Tap, second: Tap) -> Tap:
    """A tap that shows each request to both."""
    return TapPair(first, second)


class TapPair(Tap):
    """Watches for two taps."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Tap, second: Tap) -> None:
        self._first = first
        self._second = second

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return WatchPair(self._first.begin(client, state, now), self._second.begin(client, state, now))

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if len(data) < at + size:
            watch = self.begin(client, state, now)
            frames.edit(WatchedRequest(watch, waits is not None))
            return watch
        first = self._first.show_request(client, state, frames, data, at, size, waits, now)
        second = self._second.show_request(client, state, frames, data, at, size, waits, now)
        return WatchPair(first, second) if first is not None and second is not None else first or second


class SizedWatch(Watch):
    """A watch that gets to know how long a response is before the client gets any of it."""

    __slots__ = ()

    def begins(self, size: int) -> None:
        """The response begins, of so many bytes, and comes in pieces."""

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        if len(data) < at + size:
            self.begins(size)
        super().show_response(frames, data, at, size, now)


class TimedWatch(SizedWatch):
    """A watch that gets to know when an exchange begins and ends to wait for the broker."""

    __slots__ = ()

    def decided(self, now: float, is_answered: bool) -> None:
        """An exchange has looked into the request, which now goes on, or ``is_answered`` here. ``now``: seconds."""

    def arrived(self, now: float) -> None:
        """The broker's response has begun to arrive, and an exchange is to look into it."""


class WatchPair(TimedWatch):
    """Two watches of one request, which are shown each piece unless they skip all of it."""

    __slots__ = ("_watches",)

    def __init__(self, first: Watch, second: Watch) -> None:
        super().__init__()
        self._watches = first, second

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        for watch in self._watches:
            if not _skips(watch, end - start, last):
                watch.request(data, start, end, last)

    def forwarded(self, frame: bytes) -> None:
        for watch in self._watches:
            watch.forwarded(frame)

    def unanswered(self) -> None:
        for watch in self._watches:
            watch.unanswered()

    def received(self, frame: bytes) -> None:
        for watch in self._watches:
            watch.received(frame)

    def large_messages(self, found: LargeByPartition) -> None:
        for watch in self._watches:
            watch.large_messages(found)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        for watch in self._watches:
            if not _skips(watch, end - start, last):
                watch.response(data, start, end, last, now)

    def begins(self, size: int) -> None:
        for watch in self._watches:
            if isinstance(watch, SizedWatch):
                watch.begins(size)

    def decided(self, now: float, is_answered: bool) -> None:
        for watch in self._watches:
            if isinstance(watch, TimedWatch):
                watch.decided(now, is_answered)

    def arrived(self, now: float) -> None:
        for watch in self._watches:
            if isinstance(watch, TimedWatch):
                watch.arrived(now)

    def abandoned(self) -> None:
        for watch in self._watches:
            watch.abandoned()

    def lost(self, why: str) -> None:
        for watch in self._watches:
            watch.lost(why)

    def done(self) -> None:
        for watch in self._watches:
            watch.done()


def _skips(watch: Watch, size: int, last: bool) -> bool:
    """Whether a watch need not be shown the next bytes of its frame."""
    if last or watch.skip < size:
        return False
    watch.skip -= size
    return True
