"""What every family of metrics has in common in Prometheus' form: its prefix, labels and buckets.

Imported with exposition.py when /metrics is asked for the first time: the client library takes five megabytes.
"""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

PREFIX = "kafka_sidecar_"
SHOWN_BITS = range(4, 27)  # histograms have buckets of 16 microseconds to 67 seconds


def counter_by(name: str, about: str, label: str, counter: Counter[str]) -> Metric:
    """A counter with one label."""
    family = CounterMetricFamily(PREFIX + name, about, labels=[label])
    for value, number in counter.items():
        family.add_metric([value], number)
    return family


def buckets(counts: list[int], total: float) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets; counts[b] are values of b bits, that is below 2**b microseconds."""
    shown: list[tuple[str, float]] = []
    seen = 0
    for bits, count in enumerate(counts):
        seen += count
        if bits in SHOWN_BITS:
            shown.append((repr((1 << bits) / 1e6), seen))
    return [*shown, ("+Inf", seen)], total
