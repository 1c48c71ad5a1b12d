"""Rate limit of all log lines together: no client can fill a disk, or keep the process busy with writing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

BURST_S = 10  # lines of so many seconds may come at once


class LogRate(logging.Filter):
    """Suppresses lines over a rate, except errors; the next line says how many were suppressed."""

    def __init__(self, lines_per_s: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self.total = 0
        self._lines_per_s = lines_per_s
        self._clock = clock  # seconds
        self._allowed = lines_per_s * BURST_S
        self._updated = clock()
        self._suppressed = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        earned = (now - self._updated) * self._lines_per_s
        self._allowed = min(self._allowed + earned, self._lines_per_s * BURST_S)
        self._updated = now
        if self._allowed < 1 and record.levelno < logging.ERROR:
            self._suppressed += 1
            self.total += 1
            return False
        self._allowed -= 1
        if self._suppressed:
            record.suppressed_in_all, self._suppressed = self._suppressed, 0
        return True

    def collect(self) -> Iterable[Metric]:
        """The metric of suppressed lines."""
        from prometheus_client.core import CounterMetricFamily

        from kafka_sidecar.proxy.telemetry.prometheus import PREFIX

        about = "Log lines suppressed because of log.max_rate"
        return [CounterMetricFamily(PREFIX + "suppressed_log_lines", about, value=self.total)]
