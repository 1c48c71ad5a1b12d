"""Metrics of auditing."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_sidecar.proxy.features.auditing.audit import Audit
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge


def collect(audit: Audit) -> Iterator[Family]:
    """All metrics of auditing."""
    stats = audit.counting.stats
    yield counter("audit_uncounted", "Frames that were not counted", stats.uncounted, "api_key", "reason")
    yield counter("audit_unnamed_batches", "Batches of topics whose name is not known", stats.unnamed)
    outbox, sender = audit.outbox, audit.sender
    if sender is None:
        return
    yield counter("audit_intervals", "Reporting intervals that have ended", outbox.intervals)
    yield counter("audit_events_sent", "Events that Kafka has acknowledged", sender.sent)
    discarded = {"buffer_full": outbox.discarded, "too_large": sender.too_large}
    yield counter("audit_events_discarded", "Events that were discarded", discarded, "reason")
    yield counter("audit_send_failures", "Attempts to send that failed", sender.failures)
    yield gauge("audit_buffered_events", "Events that are not sent yet", outbox.events + sender.in_flight)
    yield gauge("audit_buffered_bytes", "Bytes of the events in the buffer", outbox.bytes)
