"""Metrics of interception for Prometheus, with those that the interceptors define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily

from kafka_sidecar.interceptors.guard import Guard
from kafka_sidecar.interceptors.metrics import Histogram, Labels, Metric, escape_surrogates
from kafka_sidecar.proxy.features.interception.stats import InterceptionStats
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, buckets

Family = Any  # one of the three kinds of prometheus_client
Shape = tuple[type[Any], tuple[str, ...]]  # its kind and its labels


def collect(stats: InterceptionStats) -> Iterator[MetricFamily]:
    """All metric families of interception."""
    batches = CounterMetricFamily(
        PREFIX + "intercepted_batches", "Batches of topics with interceptors", labels=["api_key", "result"]
    )
    for (api, result), number in list(stats.batches.items()):  # threads may add to it
        batches.add_metric([api, result], number)
    commits = CounterMetricFamily(
        PREFIX + "intercepted_offsets", "Offsets of commits that interceptors have seen", labels=["result"]
    )
    for result, number in list(stats.commits.items()):
        commits.add_metric([result], number)
    yield from (batches, commits)
    yield from _guards(stats.guards)
    yield from _own(stats)


def _own(stats: InterceptionStats) -> Iterator[MetricFamily]:
    """The families of the interceptors themselves; several interceptors of one type share a family."""
    families: dict[str, tuple[Shape, Family]] = {}
    for guard in stats.guards:
        try:
            for metric in guard.interceptor.metrics():
                _add(families, metric, guard.name)
        except BaseException as error:  # noqa: BLE001 - /metrics must not break for one of them
            stats.failed(guard.name, "metrics", error)
    yield from (family for _, family in families.values())


def _guards(guards: tuple[Guard, ...]) -> Iterator[MetricFamily]:
    labels = ["interceptor", "hook"]
    failures = CounterMetricFamily(PREFIX + "interceptor_failures", "Failed calls of an interceptor", labels=labels)
    slow = CounterMetricFamily(
        PREFIX + "interceptor_over_budget", "Calls that took longer than their budget", labels=labels
    )
    calls = HistogramMetricFamily(PREFIX + "interceptor_call_seconds", "Duration of one call", labels=labels)
    disabled = GaugeMetricFamily(
        PREFIX + "interceptor_disabled", "1 while an interceptor is disabled after failures", labels=["interceptor"]
    )
    for guard in guards:
        for hook, number in list(guard.failures.items()):
            failures.add_metric([guard.name, hook], number)
        for hook, number in list(guard.over_budget.items()):
            slow.add_metric([guard.name, hook], number)
        for hook, histogram in list(guard.calls.items()):
            calls.add_metric([guard.name, hook], *_buckets(histogram))
        disabled.add_metric([guard.name], int(guard.is_disabled))
    yield from (failures, slow, calls, disabled)


def _add(families: dict[str, tuple[Shape, Family]], one: Metric, interceptor: str) -> None:
    """Raises if the metric is invalid: rendering it would fail for all metrics."""
    if not isinstance(one.about, str):
        raise TypeError(f"the description of {one.name} is not a string")
    labels = ["interceptor", *one.labels]
    for kind, values in _by_kind(one):
        for of, value in list(values.items()):
            given = _buckets(value) if kind is HistogramMetricFamily else (float(value),)
            shape = kind, one.labels
            found, family = families.setdefault(one.name, (shape, kind(PREFIX + one.name, one.about, labels=labels)))
            if found != shape or len(of) != len(one.labels):
                raise ValueError(f"the labels or the kind of {one.name} differ")
            family.add_metric([interceptor, *map(escape_surrogates, map(str, of))], *given)


def _by_kind(one: Metric) -> Iterator[tuple[type[Any], Mapping[Labels, Any]]]:
    yield CounterMetricFamily, one.counters
    yield GaugeMetricFamily, one.gauges
    yield HistogramMetricFamily, one.histograms


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    return buckets(histogram.counts, histogram.total_us / 1e6)
