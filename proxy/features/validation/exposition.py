"""Metrics of validation for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.features.validation.stats import ValidationStats
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, counter_by


def collect(stats: ValidationStats) -> Iterator[Metric]:
    """All metric families of validation."""
    rejected = CounterMetricFamily(
        PREFIX + "rejected_records",
        "Records that policies rejected; in mode shadow: would have rejected",
        labels=["topic", "policy", "mode", "reason"],
    )
    for kind, number in stats.rejections.items():
        rejected.add_metric(kind, number)
    failures = CounterMetricFamily(
        PREFIX + "policy_failures", "Failures of policies themselves", labels=["policy", "mode"]
    )
    for failed, number in stats.failures.items():
        failures.add_metric(failed, number)
    yield from (rejected, failures)
    yield counter_by(
        "validated_batches",
        "Batches validated by policies, from the header alone or with contents",
        "depth",
        stats.batches,
    )
    yield CounterMetricFamily(PREFIX + "validated_records", "Records of these batches", value=stats.records)
    yield CounterMetricFamily(
        PREFIX + "omitted_record_errors",
        "Record errors beyond limits.max_record_errors, of which a response has only the number",
        value=stats.omitted_errors,
    )
