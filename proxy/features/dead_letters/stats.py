"""Counters and rate-limited log lines of dead letters."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from threading import Lock

from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

log = logging.getLogger(__name__)

MAX_SERIES = 1000  # dead letter topics; further ones are counted as OTHER
OTHER = "(other)"
LOG_INTERVAL_S = 10.0  # for one topic and reason
# What is no loss: the record has been a letter before, or has gone where it can be found.
HARMLESS = ("replayed",)


class LetterStats:
    """The counters of one process. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds since 1970."""
        self.queued: Counter[str] = Counter()  # letters, by dead letter topic
        self.sent: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()  # by reason
        self.repeated = 0  # records of batches that came again
        self._lock = Lock()
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def queue(self, topic: str, letters: int) -> None:
        if letters:
            with self._lock:
                self.queued[_series(self.queued, topic)] += letters

    def note_sent(self, topic: str, letters: int) -> None:
        with self._lock:
            self.sent[_series(self.sent, topic)] += letters

    def drop(self, topic: str | None, letter_topic: str | None, reason: str, letters: int, why: str = "") -> None:
        """Records that are no letters, for this reason.

        Args:
            topic: that they were sent to, if it is known.
            letter_topic: that they do not go to.
            reason: a label value of metrics.
            letters: how many; none is fine.
            why: for a person.
        """
        if letters <= 0:
            return
        with self._lock:
            self.dropped[reason] += letters
            suppressed = self._lines.due(("dead letters dropped", letter_topic or "", reason))
        if suppressed is None or reason in HARMLESS:
            return
        log.warning(
            "dead letters dropped",
            extra={
                "reason": reason, "letters": letters, "topic": topic, "dead_letter_topic": letter_topic,
                "detail": why or None, "suppressed": suppressed,
            },
        )  # fmt: skip


def _series(counts: Counter[str], topic: str) -> str:
    return topic if topic in counts or len(counts) < MAX_SERIES else OTHER
