"""Metrics as OpenTelemetry has them, translated from those of /metrics: nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    NumberDataPoint,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

CUMULATIVE = AggregationTemporality.CUMULATIVE
NOT_KNOWN = 0.0  # least and greatest value of a histogram
Labels = tuple[tuple[str, str], ...]


def translate(families: Iterable[Metric], start_ns: int, now_ns: int) -> Iterator[OtlpMetric]:
    """All families; those without a sample are omitted."""
    for family in families:
        data: Sum | Gauge | Histogram
        if family.type == "histogram":
            data = Histogram(_histograms(family, start_ns, now_ns), CUMULATIVE)
        elif family.type == "counter":
            counted = (one for one in family.samples if one.name.endswith("_total"))
            data = Sum(_numbers(counted, start_ns, now_ns), CUMULATIVE, is_monotonic=True)
        else:
            data = Gauge(_numbers(family.samples, start_ns, now_ns))
        if data.data_points:
            name = family.name + ("_total" if family.type == "counter" else "")
            yield OtlpMetric(name, family.documentation, "", data)


def _numbers(samples: Iterable[Sample], start_ns: int, now_ns: int) -> list[NumberDataPoint]:
    return [NumberDataPoint(dict(one.labels), start_ns, now_ns, one.value) for one in samples]


def _histograms(family: Metric, start_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    """Of each series; Prometheus' buckets are cumulative, OpenTelemetry's are not."""
    series: dict[Labels, list[Sample]] = {}
    for one in family.samples:
        labels = tuple(sorted((name, value) for name, value in one.labels.items() if name != "le"))
        series.setdefault(labels, []).append(one)
    return [_histogram(labels, samples, start_ns, now_ns) for labels, samples in series.items()]


def _histogram(labels: Labels, samples: list[Sample], start_ns: int, now_ns: int) -> HistogramDataPoint:
    buckets = [(float(one.labels["le"]), int(one.value)) for one in samples if one.name.endswith("_bucket")]
    total = next((one.value for one in samples if one.name.endswith("_sum")), 0.0)
    counts = [seen - before for (_, before), (_, seen) in pairwise([(0.0, 0), *buckets])]
    bounds = [bound for bound, _ in buckets[:-1]]
    count = buckets[-1][1] if buckets else 0
    return HistogramDataPoint(dict(labels), start_ns, now_ns, count, total, counts, bounds, NOT_KNOWN, NOT_KNOWN)
