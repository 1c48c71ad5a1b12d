"""What is reported of interceptors: a log line for each kind of failure and minute, and counts of batches."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_sidecar.interceptors.guard import Guard, Report
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, redact

log = logging.getLogger(__name__)

LOGGED_EVERY_S = 60.0  # for one interceptor, hook and kind of failure


@dataclass(slots=True)
class InterceptionStats(Report):
    """The figures of one process about interception."""

    clock: Callable[[], float]  # seconds
    guards: tuple[Guard, ...] = ()  # of the interceptors in force
    # (API, what became of it) -> batches: "unchanged", "changed", "dropped", or why it was left alone
    batches: Counter[tuple[str, str]] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)  # by what became of a partition's offset
    _lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LogLimiter(LOGGED_EVERY_S, self.clock)

    def failed(self, interceptor: str, hook: str, error: BaseException) -> None:
        if (left_out := self._lines.due((interceptor, hook, type(error).__name__))) is not None:
            log.warning(
                "interceptor failed",
                exc_info=redact(log, error),
                extra={"interceptor": interceptor, "hook": hook, "suppressed": left_out},
            )

    def slow(self, interceptor: str, hook: str, seconds: float) -> None:
        if (left_out := self._lines.due((interceptor, hook, "(slow)"))) is not None:
            log.warning(
                "interceptor over budget",
                extra={
                    "interceptor": interceptor, "hook": hook, "duration_s": round(seconds, 3), "suppressed": left_out,
                },
            )  # fmt: skip

    def disabled(self, interceptor: str, failures: int, pause_s: float) -> None:
        log.error(
            "interceptor disabled",
            extra={"interceptor": interceptor, "failures": failures, "pause_s": pause_s},
        )

    def skipped(self, api: str, why: str, topic: str) -> None:
        """A batch that should have been intercepted passes as it is."""
        self.batches[api, why] += 1
        if (left_out := self._lines.due((api, why))) is not None:
            log.warning(
                "batch not intercepted",
                extra={"api": api, "reason": why, "topic": topic, "suppressed": left_out},
            )
