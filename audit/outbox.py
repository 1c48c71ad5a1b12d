"""Events that are not sent yet: bounded in bytes and number. Where there is no room, the oldest counts are discarded.

What is discarded is named in the event that ends its interval (``lost_events``), so that it is reported as unknown.
Thread-safe: an auditor adds events in its own thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, NamedTuple

import orjson

from kafka_sidecar.audit.events import Event, Interval

END_BYTES = 700  # of an interval's last event, which is encoded when it is taken


class Pending(NamedTuple):
    """One event as it is sent."""

    key: bytes  # its audit_id
    value: bytes
    min_ts: int | None = None
    max_ts: int | None = None


class _Unsent:
    """The events of one interval."""

    __slots__ = ("at", "counts", "end")

    def __init__(self, counts: Iterable[Pending], end: Event | None, at: float) -> None:
        self.at = at  # seconds since 1970 when they were made
        self.counts = deque(counts)
        self.end = end  # None: it is among counts, which an earlier process has encoded

    def lose(self, event: Pending) -> None:
        if self.end is not None:
            self.end["lost_events"] += 1
            for name, ts, choose in (("lost_min_ts", event.min_ts, min), ("lost_max_ts", event.max_ts, max)):
                known = [one for one in (self.end[name], ts) if one is not None]
                self.end[name] = choose(known, default=None)


class Outbox:
    """A queue of events. ``wake`` is called after events were added, in the thread that adds them."""

    def __init__(
        self,
        max_bytes: int,
        max_events: int,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._wake = wake
        self._clock = clock
        self._lock = Lock()
        self._intervals: deque[_Unsent] = deque()
        self._emptied = 0  # the first ones, whose counts are discarded
        self.events = self.bytes = self.discarded = self.intervals = 0
        self.taken_at: float | None = None  # when the oldest event that was taken last was made

    def add(self, interval: Interval) -> None:
        """Add the events of an interval; the oldest counts make room for them."""
        counts = [_encode(event) for event in interval.counts]
        with self._lock:
            self.intervals += 1
            self._append(_Unsent(counts, dict(interval.end), self._clock()), END_BYTES)
        self._wake()

    def restore(self, values: Iterable[bytes], at: float) -> int:
        """Add events that an earlier process has left at that time; their number. What is not an event is omitted."""
        events = [event for value in values if (event := _decode(value)) is not None]
        with self._lock:
            self._append(_Unsent(events, None, at), 0)
        self._wake()
        return len(events)

    def take(self, max_events: int, max_bytes: int) -> list[Pending]:
        """Remove the oldest events, to be sent: at least one if there is any."""
        taken: list[Pending] = []
        size = 0
        with self._lock:
            self.taken_at = self._oldest_at()
            while self._intervals and len(taken) < max_events and size < max_bytes:
                event, held = self._pop()
                if event is not None:
                    self._forget(held)
                    taken.append(event)
                    size += len(event.value)
        return taken

    @property
    def oldest_at(self) -> float | None:
        """When the oldest event was made, seconds since 1970; None: there is none."""
        with self._lock:
            return self._oldest_at()

    def _oldest_at(self) -> float | None:
        return next((one.at for one in self._intervals if one.counts or one.end is not None), None)

    def _append(self, unsent: _Unsent, end_bytes: int) -> None:
        self._intervals.append(unsent)
        self.events += len(unsent.counts) + (unsent.end is not None)
        self.bytes += sum(len(event.value) for event in unsent.counts) + end_bytes
        while (self.bytes > self._max_bytes or self.events > self._max_events) and self.events > 1:
            self._discard()

    def _pop(self) -> tuple[Pending | None, int]:
        """The oldest event and the bytes that it held; None where an interval had none left."""
        oldest = self._intervals[0]
        if oldest.counts:
            event = oldest.counts.popleft()
            return event, len(event.value)
        self._intervals.popleft()
        self._emptied = max(0, self._emptied - 1)
        return (None, 0) if oldest.end is None else (_encode(oldest.end), END_BYTES)

    def _discard(self) -> None:
        """The oldest counts, or where there are none left the oldest end: its number is then missing, which tells."""
        while self._emptied < len(self._intervals) and not self._intervals[self._emptied].counts:
            self._emptied += 1
        if self._emptied < len(self._intervals):
            interval = self._intervals[self._emptied]
            event = interval.counts.popleft()
            interval.lose(event)
            self._forget(len(event.value))
            self.discarded += 1
        elif self._pop()[0] is not None:
            self._forget(END_BYTES)
            self.discarded += 1

    def _forget(self, held: int) -> None:
        self.events -= 1
        self.bytes -= held


def _encode(event: Event) -> Pending:
    try:
        value = orjson.dumps(event)
    except TypeError:  # a name that is not UTF-8, as any client may send: what is not becomes U+FFFD
        value = orjson.dumps({name: _as_text(field) for name, field in event.items()})
    return Pending(event["audit_id"].encode(), value, event.get("min_ts"), event.get("max_ts"))


def _as_text(field: Any) -> Any:
    return field.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(field, str) else field


def _decode(value: bytes) -> Pending | None:
    try:
        event = orjson.loads(value)
        return Pending(event["audit_id"].encode(), value, event.get("min_ts"), event.get("max_ts"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
