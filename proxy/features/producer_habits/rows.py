"""Rows of `/producers` of several workers: one for each client and topic, whose connections are spread over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMES = ("client_id", "principal", "software", "topic")
SUMS = ("batches", "records", "bytes")
SHARES = ("idempotent", "transactional")  # of the batches
COUNTS = ("acks", "compression", "not_as_required")  # numbers by name


def join_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the same names as one, in any order."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in NAMES), []).append(row)
    return [dict(same[0]) if len(same) == 1 else _joined(same) for same in found.values()]


def _joined(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    last = max(rows, key=lambda row: str(row["at"]))
    joined = {**last, "since": min(row["since"] for row in rows), "worker": None}
    joined |= {name: sum(row[name] for row in rows) for name in SUMS}
    batches = max(joined["batches"], 1)
    joined["mean_batch_bytes"] = round(joined["bytes"] / batches)
    joined["mean_records"] = round(joined["records"] / batches, 1)
    joined |= {name: round(sum(row[name] * row["batches"] for row in rows) / batches, 3) for name in SHARES}
    for name in COUNTS:
        counts = Counter[str]()
        for row in rows:
            counts.update(row[name])
        joined[name] = dict(counts)
    return joined
