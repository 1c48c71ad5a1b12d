"""A thread that sees when the event loop does not run, and says in the log what keeps it: stack, plug-in and hook.

The loop gives a sign of life once a second. One that is overdue is reported at most 2 s after the loop has stopped, and
again once it runs. Code that holds the interpreter's lock keeps this thread waiting too: it is reported when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Event, Thread, get_ident

from kafka_sidecar.plugins.calls import Call, call_in, keys_of, lines_of
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)

BEAT_S = 1.0  # between two signs of life
OVERDUE_S = 0.5  # after which a sign of life is missing
REPEAT_S = 60.0  # between two lines about the same stop
NO_PLUG_IN = "none"
NOT_SEEN = "no other thread ran meanwhile: the interpreter's lock was held, or the process had no CPU"


class Watchdog:
    """Watches the loop in which it is started, and lets threads that only sleep be replaced."""

    def __init__(self, threads: Threads, record_delay: Callable[[float], None]) -> None:
        """``record_delay`` is called with each delay of a sign of life, in seconds."""
        self.stops: Counter[str] = Counter()  # by the plug-in that was called then
        self._threads = threads
        self._record_delay = record_delay
        self._due = 0.0  # when the next sign of life is expected, by `time.monotonic`
        self._reported_at: float | None = None  # that the loop does not run
        self._ended = Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._due = time.monotonic() + BEAT_S
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        Thread(target=self._watch, args=(get_ident(),), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def families(self) -> Iterator[Family]:
        """Its metric."""
        yield counter("event_loop_stops", "How often the event loop has not run for a second", self.stops, "plug_in")

    def _beat(self) -> None:
        now = time.monotonic()
        late_s, reported, self._reported_at = now - self._due, self._reported_at, None
        self._due = now + BEAT_S
        self._record_delay(late_s)
        if reported is None and late_s > BEAT_S:
            self._report(late_s, None, [], NOT_SEEN)
        if reported is not None or late_s > BEAT_S:
            log.warning("event loop runs again", extra={"duration_s": round(late_s, 3)})
        assert self._loop is not None
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _watch(self, ident: int) -> None:
        while not self._ended.wait(max(0.1, self._due + OVERDUE_S - time.monotonic())):
            if self._loop is None or self._loop.is_closed():
                return
            self._threads.replace_sleeping()
            now = time.monotonic()
            if now - self._due >= OVERDUE_S:
                self._see(ident, now)

    def _see(self, ident: int, now: float) -> None:
        """The loop does not run: say why, once and then now and then."""
        reported = self._reported_at
        if reported is not None and now - reported < REPEAT_S:
            return
        due, frame = self._due, sys._current_frames().get(ident)
        call, stack = call_in(frame), lines_of(frame)
        del frame
        if self._due == due:  # it has not begun to run meanwhile
            self._reported_at = now
            self._report(now - due + BEAT_S, call, stack, None, is_new=reported is None)

    def _report(
        self, seconds: float, call: Call | None, stack: list[str], detail: str | None, is_new: bool = True
    ) -> None:
        if is_new:
            self.stops[NO_PLUG_IN if call is None else f"{call.kind} {call.name}"] += 1
        log.error(
            "event loop blocked",
            extra={**keys_of(call), "duration_s": round(seconds, 3), "detail": detail, "stack": stack or None},
        )
