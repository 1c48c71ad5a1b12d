"""Metrics say how many events were sent, wait, and were discarded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.in_process import config

from kafka_sidecar.audit.events import Interval
from kafka_sidecar.proxy.features.auditing.audit import Audit, collect

NAMES: Any = SimpleNamespace(name_of=None, last_id_of=None)


def read(audit: Audit) -> dict[str, Any]:
    """Name without prefix, and the label -> value."""
    return {
        " ".join((family.name.removeprefix("audit_"), *labels)): value
        for family in collect(audit)
        for labels, value in family.samples.items()
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
        "uncounted Produce unreadable": 2,
        "unnamed_batches": 0,
        "intervals": 1,
        "events_sent": 0,
        "events_discarded buffer_full": 2,
        "events_discarded too_large": 0,
        "send_failures": 0,
        "buffered_events": 2,
    }


def test_an_auditor_without_events_has_two_metrics() -> None:
    audit = Audit(config("a:1", audit={"auditor_class": "logging"}), NAMES)
    assert [family.name for family in collect(audit)] == [
        "audit_uncounted",
        "audit_unnamed_batches",
    ]
