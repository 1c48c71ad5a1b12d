"""Prometheus reads how many events were sent, wait, and were discarded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.in_process import config

from kafka_sidecar.audit.events import Interval
from kafka_sidecar.proxy.features.auditing.audit import Audit
from kafka_sidecar.proxy.features.auditing.exposition import collect

NAMES: Any = SimpleNamespace(name_of=None)


def read(audit: Audit) -> dict[str, float]:
    """Name without prefix, and the label -> value."""
    return {
        " ".join((sample.name.removeprefix("kafka_sidecar_audit_"), *sample.labels.values())): sample.value
        for family in collect(audit)
        for sample in family.samples
    }


async def test_events_and_intervals_are_counted() -> None:
    audit = Audit(config("a:1", audit={"topic": "audit", "max_buffered": "1MiB"}), NAMES)
    large: list[dict[str, Any]] = [{"audit_id": str(number), "p": "x" * (1 << 19)} for number in range(3)]
    end = {"lost_events": 0, "lost_min_ts": None, "lost_max_ts": None}
    audit.outbox.add(Interval(large, {"audit_id": "end", **end}))
    audit.counting.stats.uncounted["Produce", "unreadable"] += 2
    values = read(audit)
    assert 0 < values.pop("buffered_bytes") <= 1 << 20
    assert values == {
        "uncounted_total Produce unreadable": 2,
        "unnamed_batches_total": 0,
        "intervals_total": 1,
        "events_sent_total": 0,
        "events_discarded_total buffer_full": 2,
        "events_discarded_total too_large": 0,
        "send_failures_total": 0,
        "buffered_events": 2,
    }


def test_an_auditor_without_events_has_two_metrics() -> None:
    audit = Audit(config("a:1", audit={"auditor_class": "logging"}), NAMES)
    assert [family.name for family in collect(audit)] == [
        "kafka_sidecar_audit_uncounted",
        "kafka_sidecar_audit_unnamed_batches",
    ]
