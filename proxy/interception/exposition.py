"""The figures about interception in Prometheus' form, those of the interceptors themselves among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily

from kafka_sidecar.interceptors.guard import Guard
from kafka_sidecar.interceptors.metrics import Histogram, Labels, Metric, escape_surrogates
from kafka_sidecar.proxy.interception.stats import InterceptionStats
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, buckets

Family = Any  # one of the three kinds of prometheus_client
Shape = tuple[type[Any], tuple[str, ...]]  # its kind and its labels


def exposed(seen: InterceptionStats) -> Iterator[MetricFamily]:
    """Every metric about interception."""
    batches = CounterMetricFamily(
        PREFIX + "intercepted_batches", "Batches of topics with interceptors", labels=["api_key", "result"]
    )
    for (api, result), number in list(seen.batches.items()):  # others count in threads
        batches.add_metric([api, result], number)
    commits = CounterMetricFamily(
        PREFIX + "intercepted_offsets", "Offsets of commits that interceptors have seen", labels=["result"]
    )
    for result, number in list(seen.commits.items()):
        commits.add_metric([result], number)
    yield from (batches, commits)
    yield from _guards(seen.guards)
    yield from _own(seen)


def _own(seen: InterceptionStats) -> Iterator[MetricFamily]:
    """What interceptors have counted themselves; several of one type share a family."""
    families: dict[str, tuple[Shape, Family]] = {}
    for guard in seen.guards:
        try:
            for metric in guard.interceptor.metrics():
                _add(families, metric, guard.name)
        except BaseException as error:  # noqa: BLE001 - /metrics must not break for one of them
            seen.failed(guard.name, "metrics", error)
    yield from (family for _, family in families.values())


def _guards(guards: tuple[Guard, ...]) -> Iterator[MetricFamily]:
    labels = ["interceptor", "hook"]
    failures = CounterMetricFamily(PREFIX + "interceptor_failures", "Failed calls of an interceptor", labels=labels)
    slow = CounterMetricFamily(
        PREFIX + "interceptor_over_budget", "Calls that took longer than their budget", labels=labels
    )
    calls = HistogramMetricFamily(PREFIX + "interceptor_call_seconds", "Duration of one call", labels=labels)
    out = GaugeMetricFamily(
        PREFIX + "interceptor_disabled", "1 while an interceptor is disabled after failures", labels=["interceptor"]
    )
    for guard in guards:
        for hook, number in list(guard.failures.items()):
            failures.add_metric([guard.name, hook], number)
        for hook, number in list(guard.over_budget.items()):
            slow.add_metric([guard.name, hook], number)
        for hook, histogram in list(guard.calls.items()):
            calls.add_metric([guard.name, hook], *_buckets(histogram))
        out.add_metric([guard.name], int(guard.is_disabled))
    yield from (failures, slow, calls, out)


def _add(families: dict[str, tuple[Shape, Family]], one: Metric, interceptor: str) -> None:
    """Raises what is wrong with a metric: once it is rendered it would take all others with it."""
    if not isinstance(one.about, str):
        raise TypeError(f"what {one.name} is about is no text")
    labels = ["interceptor", *one.labels]
    for kind, values in _by_kind(one):
        for of, value in list(values.items()):
            given = _buckets(value) if kind is HistogramMetricFamily else (float(value),)
            shape = kind, one.labels
            found, family = families.setdefault(one.name, (shape, kind(PREFIX + one.name, one.about, labels=labels)))
            if found != shape or len(of) != len(one.labels):
                raise ValueError(f"the labels or the kind of {one.name} are not always the same")
            family.add_metric([interceptor, *map(escape_surrogates, map(str, of))], *given)


def _by_kind(one: Metric) -> Iterator[tuple[type[Any], Mapping[Labels, Any]]]:
    yield CounterMetricFamily, one.counters
    yield GaugeMetricFamily, one.gauges
    yield HistogramMetricFamily, one.histograms


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    return buckets(histogram.counts, histogram.total_us / 1e6)
