"""What was injected, beside what the tables say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit_tables import Tables

if TYPE_CHECKING:
    from audit_faults import Injected

LATE_MS = 60_000
LOST = {"search": "orders", "archive": "payments"}


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    injected: str
    found: str

    @property
    def is_same(self) -> bool:
        return self.injected == self.found


def compare(injected: Injected, tables: Tables, bucket_ms: int) -> list[Finding]:
    return [
        *_losses(injected, tables),
        Finding("refunds, duplicates included", f"{injected.stored} acknowledged", _acknowledged(tables)),
        Finding("duplicates of refunds", ranges(injected.copies), ranges(tables.offsets(finding="duplicate"))),
        Finding("refunds sent past the sidecar", ranges(injected.past_sidecar), _unaudited(tables)),
        Finding("records read again", f"{injected.reread} by billing", _reread(tables, "deliver")),
        Finding("records of a share group", f"{injected.shared} of visits by workers", _shared(tables)),
        Finding("released and given out again", f"{injected.released} by workers", _reread(tables, "share")),
        Finding("read without a group", f"{injected.without_group} of visits", _seen(tables, "read")),
        Finding("late records", f"{injected.late} of payments", _late(tables)),
        *_killed(injected, tables, bucket_ms),
    ]


def ranges(offsets: set[int]) -> str:
    """Such as 100-149, 200."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in found) or "none"


def _losses(injected: Injected, tables: Tables) -> list[Finding]:
    named = {(row["group"], row["topic"]) for row in tables.rows("losses", finding="lost")}
    expected = {(group, topic) for group, topic in LOST.items() if injected.lost[group]}
    found = [
        Finding(f"lost to {group}", f"{topic} {ranges(injected.lost[group])}", f"{topic} {_lost(tables, group, topic)}")
        for group, topic in LOST.items()
    ]
    alerts = {(row["group"], row["topic"]) for row in tables.rows("alerts", is_resolved=False)}
    return [*found, Finding("lost to others", "none", _names(named - expected)),
            Finding("alerts", _names(expected), _names(alerts))]  # fmt: skip


def _names(pairs: set[tuple[str, str]]) -> str:
    return ", ".join(f"{group} of {topic}" for group, topic in sorted(pairs)) or "none"


def _lost(tables: Tables, group: str, topic: str) -> str:
    return ranges(tables.offsets(finding="lost", group=group, topic=topic, state="FINAL"))


def _unaudited(tables: Tables) -> str:
    return ranges(tables.offsets(finding="unaudited", state="FINAL"))


def _acknowledged(tables: Tables) -> str:
    seen = sum(row["seen"] for row in tables.rows("reconcile", hop="produce", topic="refunds"))
    return f"{seen} acknowledged"


def _reread(tables: Tables, hop: str) -> str:
    again: dict[str, int] = {}
    for row in tables.rows("reconcile", hop=hop):
        if row["redelivered"]:
            again[row["group"]] = again.get(row["group"], 0) + row["redelivered"]
    return ", ".join(f"{count} by {group}" for group, count in sorted(again.items())) or "none"


def _seen(tables: Tables, hop: str, suffix: str = "") -> str:
    seen: dict[str, int] = {}
    for row in tables.rows("reconcile", hop=hop):
        seen[row["topic"]] = seen.get(row["topic"], 0) + row["seen"]
    return ", ".join(f"{count} of {topic}{suffix}" for topic, count in sorted(seen.items())) or "none"


def _shared(tables: Tables) -> str:
    """What is FINAL and whole."""
    groups = {row["group"] for row in tables.rows("reconcile", hop="share", state="FINAL", completeness=1.0)}
    return _seen(tables, "share", f" by {', '.join(sorted(groups))}")


def _late(tables: Tables) -> str:
    late = [row for row in tables.rows("reconcile", hop="produce") if row["lateness_ms"] > LATE_MS]
    return ", ".join(sorted(f"{row['seen']} of {row['topic']}" for row in late)) or "none"


def _killed(injected: Injected, tables: Tables, bucket_ms: int) -> list[Finding]:
    at = round(injected.killed_at * 1000)
    holes = tables.rows("holes")
    around = [f"{row['emitter_id']} {row['cause']}" for row in holes if row["from_ms"] <= at < row["to_ms"]]
    bucket = at // bucket_ms * bucket_ms
    unknown = {row["topic"] for row in tables.rows("reconcile", state="UNKNOWN")}
    named = tables.offsets(finding="unknown", topic="invoices", group="ledger")
    in_bucket = {row["state"] for row in tables.rows("reconcile", topic="clicks", bucket_start=bucket)}
    return [
        Finding("killed sidecar", "pod-2 unfinished", ", ".join(around) or "none"),
        Finding("holes", "pod-2, pod-3", ", ".join(sorted(row["emitter_id"] for row in holes))),
        Finding("unknown topics", "clicks, invoices", ", ".join(sorted(unknown)) or "none"),
        Finding("unknown to ledger", f"invoices {ranges(injected.unknown)}", f"invoices {ranges(named)}"),
        Finding("state of clicks as it was killed", "UNKNOWN", ", ".join(sorted(in_bucket)) or "none"),
    ]
