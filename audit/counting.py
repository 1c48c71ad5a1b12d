"""li's `CountingAuditStats`: messages and bytes by topic, bucket of event time and type."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from threading import Lock
from typing import NamedTuple

from kafka_sidecar.audit.contract import AuditType


class AuditKey(NamedTuple):
    """What is counted together."""

    topic: str
    bucket: int | None  # number of the bucket since 1970; None: no timestamp
    audit_type: AuditType

    def __str__(self) -> str:
        return f"({self.topic},{self.bucket},{self.audit_type})"


class AuditingCounts(NamedTuple):
    """Of one key."""

    messages: int
    bytes: int

    def __str__(self) -> str:
        return f"({self.messages} messages, {self.bytes} bytes)"


class CountingAuditStats:
    """Counts of one interval. Thread-safe."""

    def __init__(self, bucket_ms: int) -> None:
        self.bucket_ms = bucket_ms
        self._lock = Lock()
        self._counts: dict[Hashable, list[int]] = {}
        self._closed = False

    def update(self, key: Hashable, message_count: int, bytes_count: int) -> bool:
        """Add to the counts of a key; False: the interval has been closed, and nothing was added."""
        with self._lock:
            if self._closed:
                return False
            counts = self._counts.setdefault(key, [0, 0])
            counts[0] += message_count
            counts[1] += bytes_count
            return True

    def close(self) -> None:
        """End the interval: its counts no longer change."""
        with self._lock:
            self._closed = True

    @property
    def counts(self) -> Mapping[Hashable, AuditingCounts]:
        """What was counted under each key."""
        with self._lock:
            return {key: AuditingCounts(*counts) for key, counts in self._counts.items()}
