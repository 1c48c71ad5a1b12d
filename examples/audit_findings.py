"""What was injected, beside what the tables say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit_tables import Tables

if TYPE_CHECKING:
    from audit_demo import Injected

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
        Finding("refunds, duplicates included", f"{injected.copies} acknowledged", _acknowledged(tables)),
        Finding("refunds sent past the sidecar", ranges(injected.past_sidecar), _unaudited(tables)),
        Finding("records read again", f"{injected.reread} by billing", _reread(tables)),
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


def _reread(tables: Tables) -> str:
    again = {row["group"]: 0 for row in tables.rows("reconcile", hop="deliver") if row["redelivered"]}
    for row in tables.rows("reconcile", hop="deliver"):
        if row["redelivered"]:
            again[row["group"]] += row["redelivered"]
    return ", ".join(f"{count} by {group}" for group, count in sorted(again.items())) or "none"


def _late(tables: Tables) -> str:
    late = [row for row in tables.rows("reconcile", hop="produce") if row["lateness_ms"] > LATE_MS]
    return ", ".join(sorted(f"{row['seen']} of {row['topic']}" for row in late)) or "none"


def _killed(injected: Injected, tables: Tables, bucket_ms: int) -> list[Finding]:
    at = round(injected.killed_at * 1000)
    holes = tables.rows("holes")
    around = [f"{row['emitter_id']} {row['cause']}" for row in holes if row["from_ms"] <= at < row["to_ms"]]
    bucket = at // bucket_ms * bucket_ms
    unknown = {row["topic"] for row in tables.rows("reconcile", state="UNKNOWN")}
    in_bucket = {row["state"] for row in tables.rows("reconcile", topic="clicks", bucket_start=bucket)}
    return [
        Finding("killed sidecar", "pod-2 unfinished", ", ".join(around) or "none"),
        Finding("holes", "1", str(len(holes))),
        Finding("unknown topics", "clicks", ", ".join(sorted(unknown)) or "none"),
        Finding("state of clicks as it was killed", "UNKNOWN", ", ".join(sorted(in_bucket)) or "none"),
    ]
