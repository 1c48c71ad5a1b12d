"""Metrics of interceptors, as plain values; the proxy exposes them on /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BUCKETS = 64  # powers of two of a microsecond
Labels = tuple[str, ...]


def escape_surrogates(text: str) -> str:
    """Text that can be encoded as UTF-8: client ids may contain any bytes.

    >>> escape_surrogates("app \\udcff")
    'app \\\\udcff'
    """
    return text.encode(errors="backslashreplace").decode()


@dataclass(slots=True)
class Histogram:
    """Durations, in buckets of powers of two."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)  # index: bit length of the microseconds
    total_us: int = 0

    def add(self, microseconds: int, times: int = 1) -> None:
        """Count a duration; a negative one, as between clocks that differ, counts as zero."""
        us = microseconds if microseconds > 0 else 0
        self.counts[us.bit_length()] += times
        self.total_us += us * times


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a value for each combination of labels. A `Histogram` is exposed in seconds."""

    name: str  # without the prefix of all metrics, and without _total
    about: str
    labels: Labels
    counters: Mapping[Labels, float] = field(default_factory=dict)
    gauges: Mapping[Labels, float] = field(default_factory=dict)
    histograms: Mapping[Labels, Histogram] = field(default_factory=dict)
