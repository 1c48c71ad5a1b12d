"""Counts of TLS on one side, as plain numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kafka_sidecar.proxy.telemetry.metrics import LATENCY_BUCKETS


@dataclass(slots=True)
class TlsStats:
    handshakes: int = 0
    failures: Counter[str] = field(default_factory=Counter)  # by reason: telemetry/tls_failures.py
    durations: list[int] = field(default_factory=lambda: [0] * LATENCY_BUCKETS)
    duration_s: float = 0.0
    is_current: bool = True  # whether the files that are there now apply

    def succeeded(self, seconds: float) -> None:
        """A handshake has ended well."""
        self.handshakes += 1
        self.duration_s += seconds
        self.durations[max(0, int(seconds * 1e6)).bit_length()] += 1
