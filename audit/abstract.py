"""li's `AbstractAuditor`: counts by reporting interval, and reports each interval when it is over.

Two intervals are counted at once, the current and the next. A record belongs to the next one if its event time is after
the current one's end; every earlier record belongs to the current one, however late it is.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from threading import Event, RLock, Thread
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from kafka_sidecar.audit.contract import AuditType, BatchAuditor
from kafka_sidecar.plugins.clock import now_ms
from kafka_sidecar.plugins.settings import Settings, read_settings

log = logging.getLogger(__name__)

NEVER_MS = 1 << 62
MAX_SLEEP_S = 3600.0  # the clock may be set


class AuditorSettings(Settings):
    """li's settings by li's names, and labels for what is reported."""

    interval_ms: int = Field(default=600_000, ge=1, alias="auditor.reporting.interval.ms")
    """Length of a reporting interval. Intervals begin at multiples of it since 1970."""
    delay_ms: int = Field(default=60_000, ge=0, alias="auditor.reporting.delay.ms")
    """How long after its end an interval is reported, so that late records are counted in it."""
    auto_tick: bool = Field(default=True, alias="enable.auto.tick")
    """Whether intervals end by the clock. Otherwise only `tick` ends them."""
    bucket_ms: int = Field(default=600_000, ge=1, alias="auditor.bucket.ms")
    """Length of the buckets of event time."""
    emitter_id: str = Field(default="kafka-sidecar", min_length=1)
    """Stable name of this sidecar. Not li's, as those that follow."""
    cluster: str | None = None
    """Id of the Kafka cluster."""
    dc: str | None = None
    """Datacenter."""
    app: str | None = None
    """Application."""


class AuditStats(Protocol):
    """What is counted in one interval."""

    def update(self, key: Hashable, message_count: int, bytes_count: int) -> bool:
        """Count; False, and nothing is counted, after `close`."""
        ...

    def close(self) -> None:
        """Nothing is counted from now on; updates that have begun are finished when this returns."""
        ...


class Intervals(NamedTuple):
    """The two that are counted; replaced as a whole, so that a thread always sees three values that belong together."""

    current: Any
    next: Any
    next_tick: int  # ms since 1970: the end of the current one


class AbstractAuditor(BatchAuditor, ABC):
    """Extend it and override `create_audit_stats`, `get_audit_key`, `on_tick` and `on_closed`."""

    settings = AuditorSettings()

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self.clock = clock  # ms since 1970
        self.ticks = 0
        self.intervals = Intervals(None, None, NEVER_MS)
        self._ticking = RLock()
        self._stopping = Event()
        self._stop_by: float | None = None  # monotonic seconds
        self._closed = False
        self._thread: Thread | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(type(self.settings), configs)

    def start(self) -> None:
        with self._ticking:
            if self.is_started or self._closed:
                return
            self.intervals = Intervals(self.create_audit_stats(), self.create_audit_stats(), self._first_tick())
        if self.settings.auto_tick:
            self._thread = Thread(target=self._run, name="auditor", daemon=True)
            self._thread.start()

    @property
    def is_started(self) -> bool:
        """Whether there is an interval to count in."""
        return self.intervals.current is not None

    def record(
        self,
        token: object | None,
        topic: str,
        timestamp: int | None,
        message_count: int,
        bytes_count: int,
        audit_type: AuditType,
    ) -> None:
        key = self.get_audit_key(token, topic, timestamp, message_count, bytes_count, audit_type)
        # After a tick has closed the stats, those that replace them are already there.
        while key is not None and not self._closed:
            if self.stats_for(timestamp).update(key, message_count, bytes_count):
                return

    def stats_for(self, timestamp: int | None) -> Any:
        """The stats in which a record of this event time is counted."""
        current, following, next_tick = self.intervals
        return following if timestamp is None or timestamp >= next_tick else current

    def tick(self) -> None:
        """End the current interval and report it."""
        self.on_tick(self.tick_and_get_stats())

    def tick_and_get_stats(self) -> Any:
        """End the current interval; its stats, closed."""
        with self._ticking:
            last, following, next_tick = self.intervals
            if next_tick != NEVER_MS:
                next_tick += self.settings.interval_ms
            self.intervals = Intervals(following, self.create_audit_stats(), next_tick)
            self.ticks += 1
        last.close()
        return last

    def close(self, timeout: float | None = None) -> None:
        """The stats of both intervals are passed to `on_closed`, in the auditor's thread if it has one."""
        if not self._stopping.is_set():
            self._stop_by = None if timeout is None else time.monotonic() + timeout
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout)
        elif self.is_started:
            self._finish()

    @abstractmethod
    def create_audit_stats(self) -> Any:
        """New stats, for a new interval."""

    @abstractmethod
    def get_audit_key(
        self,
        token: object | None,
        topic: str,
        timestamp: int | None,
        message_count: int,
        bytes_count: int,
        audit_type: AuditType,
    ) -> Hashable | None:
        """What to count the record under; None: do not count it."""

    @abstractmethod
    def on_tick(self, last_stats: Any) -> None:
        """An interval is over: report it. What this raises is logged."""

    @abstractmethod
    def on_closed(self, current_stats: Any, next_stats: Any, remaining_s: float | None) -> None:
        """The auditor is closed: report what was not reported, within ``remaining_s`` seconds if given."""

    def _first_tick(self) -> int:
        if not self.settings.auto_tick:
            return NEVER_MS
        interval = self.settings.interval_ms
        return (self.clock() // interval + 1) * interval

    def _run(self) -> None:
        while not self._stopping.wait(self._wait_s()):
            if self._is_due():
                self._guarded(self.tick)
        self._finish()

    def _is_due(self) -> bool:
        return self.clock() >= self.intervals.next_tick + self.settings.delay_ms

    def _wait_s(self) -> float:
        due_ms = self.intervals.next_tick + self.settings.delay_ms - self.clock()
        return min(max(due_ms / 1000, 0.0), MAX_SLEEP_S)

    def _finish(self) -> None:
        with self._ticking:
            if self._closed:
                return
            self._closed = True
        current, following, _ = self.intervals
        current.close()
        following.close()
        remaining = None if self._stop_by is None else max(0.0, self._stop_by - time.monotonic())
        self._guarded(lambda: self.on_closed(current, following, remaining))

    @staticmethod
    def _guarded(report: Callable[[], None]) -> None:
        try:
            report()
        except Exception:
            log.exception("auditor failed to report an interval")
