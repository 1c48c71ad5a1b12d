"""The page `/tap`: who may open one, and what becomes of its lines on the way to whoever reads them.

A reader that is too slow loses lines, and gets to know how many; nothing else waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

from kafka_sidecar.proxy.config.sections import Tap
from kafka_sidecar.proxy.server.admin.page import Page, Stream, Viewer, json_page
from kafka_sidecar.proxy.server.admin.tap.open_tap import Deliver, encoded
from kafka_sidecar.proxy.server.admin.tap.wanted import RefusedError, Wanted, wanted_of
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

PATH = "/tap"
LINES = "application/x-ndjson"
MAX_BUFFERED_BYTES = 1 << 20  # for one reader
RETRY_S = 0.1  # between two looks at whether a reader has taken what was sent
IDLE_S = 5.0  # after which an empty line is sent: whoever has vanished is found out
BY_COUNT, BY_SECONDS = "count", "seconds"
STUCK_S = 60.0  # for which a reader may take nothing

# Opens a tap in all processes that serve clients; what is returned ends it.
Source = Callable[[Wanted, Deliver], Callable[[], None]]


class TapStreams:
    """All taps that are read at this admin port."""

    def __init__(self, source: Source, settings: Callable[[], Tap]) -> None:
        """``settings``: those that apply now."""
        self._source = source
        self._settings = settings
        self._streams: dict[Viewer, TapStream] = {}
        self.counts: Counter[str] = Counter()  # lines that were sent, opened taps
        self.lost = Counter({"rate": 0, "slow_reader": 0})

    def families(self) -> Iterator[Family]:
        """The metrics."""
        yield gauge("taps_open", "Taps that are open", len(self._streams))
        yield counter("taps_opened", "Taps that were opened", self.counts["opened"])
        yield counter("tap_lines", "Lines that taps have sent", self.counts["lines"])
        yield counter("tap_lost_lines", "Lines that taps did not show", self.lost, "reason")

    @property
    def paths(self) -> list[str]:
        return [PATH] if self._settings().enabled else []

    def page(self, target: str) -> Page | Stream | None:
        """The page of a request target; None: it is another one."""
        path, _, query = target.partition("?")
        if path != PATH:
            return None
        settings = self._settings()
        try:
            wanted = wanted_of(query)
            if (refusal := wanted.refusal(settings)) is not None:
                raise refusal
        except RefusedError as error:
            return json_page(error.status, {"error": str(error)})
        if len(self._streams) >= settings.max_open:
            return json_page(503, {"error": f"{settings.max_open} taps are open (tap.max_open): end one, or try later"})
        return Stream(LINES, lambda viewer: self._begin(viewer, wanted), self._end)

    def _begin(self, viewer: Viewer, wanted: Wanted) -> None:
        self.counts["opened"] += 1
        log.info("tap opened", extra={"client": viewer.ip, "detail": wanted.describe()})
        stream = self._streams[viewer] = TapStream(viewer, wanted, self.counts, self.lost)
        stream.begin(encoded({"kind": "tap", "of": wanted.kind, "max_rate": self._settings().max_rate}))

        def deliver(lines: bytes, number: int, skipped: int) -> None:
            if (refusal := wanted.refusal(self._settings())) is not None:  # the configuration was reloaded
                stream.finish(str(refusal))
            else:
                stream.take(lines, number, skipped)

        stream.close = self._source(wanted, deliver)

    def _end(self, viewer: Viewer) -> None:
        if (stream := self._streams.pop(viewer, None)) is not None:
            stream.end()
            detail = f"{stream.wanted.describe()}: {stream.sent} lines sent, {stream.lost_in_all} lost"
            log.info("tap closed", extra={"client": viewer.ip, "detail": detail})


class TapStream:
    """The lines of one tap, until its reader has taken them."""

    def __init__(self, viewer: Viewer, wanted: Wanted, counts: Counter[str], lost: Counter[str]) -> None:
        self.wanted = wanted
        self.close: Callable[[], None] = lambda: None
        self.sent = self.lost_in_all = 0
        self._viewer = viewer
        self._counts = counts
        self._lost_counts = lost
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._bytes = 0
        self._lost: Counter[str] = Counter()  # that the reader does not know of yet
        self._sent_at = time.monotonic()
        self._left = wanted.count  # lines until it ends; None: no limit
        self._ends: str | None = None  # why it ends once all is sent
        self._timer: asyncio.TimerHandle | None = None
        self._limit: asyncio.TimerHandle | None = None

    def begin(self, line: bytes) -> None:
        """Send a first line."""
        self._viewer.send(line)
        self._set_timer(IDLE_S)
        if (seconds := self.wanted.seconds) is not None:
            self._limit = asyncio.get_running_loop().call_later(seconds, self.finish, BY_SECONDS)

    def finish(self, why: str) -> None:
        """End once all that waits is sent."""
        if self._ends is None:
            self._ends = why
            self._send()

    def take(self, lines: bytes, number: int, skipped: int) -> None:
        """Lines for the reader, and how many were skipped before them."""
        if self._ends is not None:
            return
        if self._left is not None:
            if number >= self._left:
                lines = b"\n".join(lines.split(b"\n", self._left)[:-1]) + b"\n"
                number, self._ends = self._left, BY_COUNT
            self._left -= number
        self._lose("rate", skipped)
        if number and self._bytes + len(lines) > MAX_BUFFERED_BYTES:
            self._lose("slow_reader", number)
        elif number:
            self._waiting.append((lines, number))
            self._bytes += len(lines)
        self._send()

    def _lose(self, reason: str, number: int) -> None:
        if number:
            self._lost[reason] += number
            self._lost_counts[reason] += number
            self.lost_in_all += number

    def _send(self) -> None:
        if self._viewer.waits:
            self._set_timer(RETRY_S)
            return
        parts = [lines for lines, _ in self._waiting]
        number = sum(number for _, number in self._waiting)
        self._waiting.clear()
        self._bytes = 0
        if self._lost:
            parts.append(encoded({"kind": "lost", "lines": sum(self._lost.values()), **self._lost}))
            self._lost.clear()
        self._sent_at = time.monotonic()
        self.sent += number
        self._counts["lines"] += number
        if self._ends is not None:
            self._viewer.send(b"".join((*parts, encoded({"kind": "end", "why": self._ends}))))
            self._viewer.leave()
            return
        self._viewer.send(b"".join(parts) or b"\n")
        self._set_timer(IDLE_S)

    def _set_timer(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        if self._viewer.waits and time.monotonic() - self._sent_at > STUCK_S:
            self._viewer.leave()
        else:
            self._send()

    def end(self) -> None:
        """The reader has left."""
        for timer in filter(None, (self._timer, self._limit)):
            timer.cancel()
        self.close()
