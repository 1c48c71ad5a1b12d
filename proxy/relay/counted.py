"""An edit of a response, counted."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.proxy.relay.frames import Edit
from kafka_sidecar.proxy.relay.routes import Route


class Counted:
    """Count by how much an edited frame grows, and how long it is held."""

    __slots__ = ("_clock", "_counts", "_edit", "_since", "buffers", "skip")

    def __init__(self, edit: Edit, route: Route, clock: Callable[[], float]) -> None:
        self.skip = 0
        self.buffers = edit.buffers
        self._edit = edit
        self._counts = route.counts
        self._clock = clock
        self._since = clock()

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        new = self._edit.feed(data, start, end, last)
        if new is not None:
            self._counts.rewritten_bytes += len(new) - (end - start)
        if last:
            self._counts.buffered += 1
            self._counts.buffered_us += int((self._clock() - self._since) * 1e6)
        return new
