"""Metrics of threads for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, buckets

GAUGES: dict[str, tuple[str, Callable[[Threads], int]]] = {
    "threads": ("Threads for work on batches", lambda threads: threads.size),
    "threads_busy": ("Threads that work, stuck ones included", lambda threads: threads.busy),
    "threads_stuck": (
        "Threads whose work does not end though its time limit is reached",
        lambda threads: threads.stuck,
    ),
    "threads_queue": ("Pieces of work that wait for a thread", lambda threads: threads.queued),
}


def collect(threads: Threads) -> Iterator[Metric]:
    """All metric families of threads."""
    for name, (about, value) in GAUGES.items():
        yield GaugeMetricFamily(PREFIX + name, about, value=value(threads))
    waits = HistogramMetricFamily(PREFIX + "thread_wait_seconds", "Time that work has waited for a thread")
    waits.add_metric([], *buckets(threads.waits, threads.waits_s))
    yield waits
    reached = CounterMetricFamily(PREFIX + "time_limits", "Time limits reached", labels=["stage", "waited_for"])
    for labels, number in threads.time_limits.items():
        reached.add_metric(labels, number)
    yield reached
