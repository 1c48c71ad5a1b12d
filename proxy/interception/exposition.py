"""The figures about interception in Prometheus' form, those of the interceptors themselves among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.interceptors.figures import Figures, Histogram
from kafka_sidecar.interceptors.guard import Guard
from kafka_sidecar.proxy.interception.observed import Observed

Buckets = Callable[[list[int], float], tuple[list[tuple[str, float]], float]]


def exposed(seen: Observed, prefix: str, buckets: Buckets) -> Iterator[Metric]:
    """Every metric about interception; ``buckets`` makes those of a histogram."""
    batches = CounterMetricFamily(
        prefix + "intercepted_batches", "Batches that interceptors had to do with", labels=["api_key", "result"]
    )
    for (api, result), number in seen.batches.items():
        batches.add_metric([api, result], number)
    commits = CounterMetricFamily(
        prefix + "intercepted_offsets", "Offsets of commits that pre_commit has seen", labels=["result"]
    )
    for result, number in seen.commits.items():
        commits.add_metric([result], number)
    yield from (batches, commits)
    yield from _guards(seen.guards, prefix, buckets)
    for guard in seen.guards:
        try:
            figures = list(guard.interceptor.figures())
        except Exception as error:  # noqa: BLE001 - /metrics must not break for one of them
            seen.failed(guard.name, "figures", error)
            continue
        for one in figures:
            yield from _figures(one, guard.name, prefix, buckets)


def _guards(guards: tuple[Guard, ...], prefix: str, buckets: Buckets) -> Iterator[Metric]:
    labels = ["interceptor", "hook"]
    failures = CounterMetricFamily(prefix + "interceptor_failures", "Calls that an interceptor failed", labels=labels)
    slow = CounterMetricFamily(
        prefix + "interceptor_over_budget", "Calls that took longer than they may", labels=labels
    )
    calls = HistogramMetricFamily(prefix + "interceptor_call_seconds", "Time of one call", labels=labels)
    out = GaugeMetricFamily(
        prefix + "interceptor_taken_out", "1 while an interceptor is left out after failures", labels=["interceptor"]
    )
    for guard in guards:
        for hook, number in guard.failures.items():
            failures.add_metric([guard.name, hook], number)
        for hook, number in guard.over_budget.items():
            slow.add_metric([guard.name, hook], number)
        for hook, histogram in list(guard.calls.items()):
            calls.add_metric([guard.name, hook], *_buckets(histogram, buckets))
        out.add_metric([guard.name], int(guard.is_out))
    yield from (failures, slow, calls, out)


def _figures(one: Figures, interceptor: str, prefix: str, buckets: Buckets) -> Iterator[Metric]:
    labels = ["interceptor", *one.labels]
    if one.counters:
        counter = CounterMetricFamily(prefix + one.name, one.about, labels=labels)
        for values, number in list(one.counters.items()):
            counter.add_metric([interceptor, *values], number)
        yield counter
    if one.gauges:
        gauge = GaugeMetricFamily(prefix + one.name, one.about, labels=labels)
        for values, number in list(one.gauges.items()):
            gauge.add_metric([interceptor, *values], number)
        yield gauge
    if one.histograms:
        histogram = HistogramMetricFamily(prefix + one.name, one.about, labels=labels)
        for values, counts in list(one.histograms.items()):
            histogram.add_metric([interceptor, *values], *_buckets(counts, buckets))
        yield histogram


def _buckets(histogram: Histogram, buckets: Buckets) -> tuple[list[tuple[str, float]], float]:
    return buckets(histogram.counts, histogram.total_us / 1e6)
