"""What all metric families share: prefix, labels, buckets.

Imported with exposition.py by the first request of /metrics: the client library allocates five megabytes.
"""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.telemetry.metrics import PREFIX as PREFIX

BUCKET_BITS = range(4, 27)  # histograms have buckets of 16 microseconds to 67 seconds


def counter_by(name: str, about: str, label: str, counter: Counter[str]) -> Metric:
    """A counter family with one label."""
    family = CounterMetricFamily(PREFIX + name, about, labels=[label])
    for value, number in counter.items():
        family.add_metric([value], number)
    return family


def buckets(counts: list[int], total: float) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets; counts[b] are values of b bits, that is below 2**b microseconds."""
    rendered: list[tuple[str, float]] = []
    seen = 0
    for bits, count in enumerate(counts):
        seen += count
        if bits in BUCKET_BITS:
            rendered.append((repr((1 << bits) / 1e6), seen))
    return [*rendered, ("+Inf", seen)], total
