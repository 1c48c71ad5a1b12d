"""Metrics of auditing for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.features.auditing.audit import Audit
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX


def collect(audit: Audit) -> Iterator[Metric]:
    """All metric families of auditing."""
    stats = audit.counting.stats
    uncounted = CounterMetricFamily(
        PREFIX + "audit_uncounted", "Frames that were not counted", labels=["api_key", "reason"]
    )
    for (api, reason), number in stats.uncounted.items():
        uncounted.add_metric([api, reason], number)
    yield uncounted
    yield CounterMetricFamily(
        PREFIX + "audit_unnamed_batches", "Batches of topics whose name is not known", value=stats.unnamed
    )
    outbox, sender = audit.outbox, audit.sender
    if sender is None:
        return
    yield CounterMetricFamily(PREFIX + "audit_intervals", "Reporting intervals that have ended", value=outbox.intervals)
    yield CounterMetricFamily(PREFIX + "audit_events_sent", "Events that Kafka has acknowledged", value=sender.sent)
    discarded = CounterMetricFamily(PREFIX + "audit_events_discarded", "Events that were discarded", labels=["reason"])
    discarded.add_metric(["buffer_full"], outbox.discarded)
    discarded.add_metric(["too_large"], sender.too_large)
    yield discarded
    yield CounterMetricFamily(PREFIX + "audit_send_failures", "Attempts to send that failed", value=sender.failures)
    yield GaugeMetricFamily(
        PREFIX + "audit_buffered_events", "Events that are not sent yet", value=outbox.events + sender.in_flight
    )
    yield GaugeMetricFamily(PREFIX + "audit_buffered_bytes", "Bytes of the events in the buffer", value=outbox.bytes)
