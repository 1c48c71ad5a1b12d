"""What an interceptor has counted, in plain values; the proxy shows them on /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BUCKETS = 64  # powers of two of a microsecond, more than any clock can count
Labels = tuple[str, ...]


def escape_surrogates(text: str) -> str:
    """Text that can be written as UTF-8: what a client calls itself may be any bytes.

    >>> escape_surrogates("app \\udcff")
    'app \\\\udcff'
    """
    return text.encode(errors="backslashreplace").decode()


@dataclass(slots=True)
class Histogram:
    """Durations, in buckets that double."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)  # index: bits of the microseconds
    total_us: int = 0

    def add(self, microseconds: int, times: int = 1) -> None:
        """Count a duration; one below zero, as of clocks that differ, counts as zero."""
        us = microseconds if microseconds > 0 else 0
        self.counts[us.bit_length()] += times
        self.total_us += us * times


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a value for each combination of labels; `Histogram` is shown in seconds."""

    name: str  # without the prefix that all metrics have, and without _total
    about: str
    labels: Labels
    counters: Mapping[Labels, float] = field(default_factory=dict)
    gauges: Mapping[Labels, float] = field(default_factory=dict)
    histograms: Mapping[Labels, Histogram] = field(default_factory=dict)
