"""Counters and rate-limited log lines of interception."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_sidecar.interceptors.guard import Guard, Place, Report
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, redact_error

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0  # for one interceptor, hook and kind of failure


@dataclass(slots=True)
class InterceptionStats(Report):
    """The counters of one process about interception."""

    clock: Callable[[], float]  # seconds
    guards: tuple[Guard, ...] = ()  # of the applied interceptors
    # (API, result) -> batches: "unchanged", "changed", "dropped", or the reason why it was not intercepted
    batches: Counter[tuple[str, str]] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)  # by the result for a partition's offset
    _lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        if (suppressed := self._lines.due((interceptor, hook, type(error).__name__))) is not None:
            log.warning(
                "interceptor failed",
                exc_info=redact_error(error),
                extra={
                    "interceptor": interceptor,
                    "hook": hook,
                    "topic": place.topic if place else None,
                    "partition": place.partition if place else None,
                    "suppressed": suppressed,
                },
            )

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None:
        if (suppressed := self._lines.due((interceptor, hook, "(slow)"))) is not None:
            log.warning(
                "interceptor over budget",
                extra={
                    "interceptor": interceptor,
                    "hook": hook,
                    "topic": place.topic if place else None,
                    "partition": place.partition if place else None,
                    "duration_s": round(seconds, 3),
                    "suppressed": suppressed,
                },
            )

    def disabled(self, interceptor: str, failures: int, pause_s: float) -> None:
        log.error(
            "interceptor disabled",
            extra={"interceptor": interceptor, "failures": failures, "pause_s": pause_s},
        )

    def skipped(self, api: str, reason: str, topic: str) -> None:
        """A batch of a topic with interceptors is forwarded unchanged, or withheld with all that follows."""
        self.batches[api, reason] += 1
        if (suppressed := self._lines.due((api, reason))) is not None:
            log.warning(
                "batch not intercepted",
                extra={"api": api, "reason": reason, "topic": topic, "suppressed": suppressed},
            )

    def hidden(self, api: str, reason: str, topic: str) -> None:
        """A batch that cannot be intercepted is hidden from consumers."""
        self.batches[api, f"hidden_{reason}"] += 1
        if (suppressed := self._lines.due((api, reason))) is not None:
            log.warning(
                "unreadable batch hidden",
                extra={"api": api, "reason": reason, "topic": topic, "suppressed": suppressed},
            )
