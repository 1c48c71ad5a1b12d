"""Counters and rate-limited log lines of large messages."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0  # for one kind of line and topic


@dataclass(slots=True)
class LargeMessageStats:
    """The counters of one process about large messages."""

    clock: Callable[[], float]  # seconds
    split: Counter[str] = field(default_factory=Counter)  # messages by result
    slices: int = 0  # that brokers have stored
    slice_bytes: int = 0  # of them, as they were sent
    stored_offsets: Counter[str] = field(default_factory=Counter)  # committed ones by the form in which they are stored
    objects: int = 0  # values that were stored as objects
    object_bytes: int = 0  # of them
    orphans: int = 0  # of them, whose carrier was not stored
    lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def was_split(self, messages: int, slices: int, size: int) -> None:
        self.split["split"] += messages
        self.slices += slices
        self.slice_bytes += size

    def refused(self, topic: str, reason: str, detail: str) -> None:
        self.split[reason] += 1
        if (suppressed := self.lines.due(("refused", topic, reason))) is not None:
            log.warning(
                "large message rejected",
                extra={"topic": topic, "reason": reason, "detail": detail, "suppressed": suppressed},
            )

    def put_objects(self, objects: int, size: int) -> None:
        self.objects += objects
        self.object_bytes += size

    def orphaned(self, slices: int) -> None:
        self.orphans += slices
