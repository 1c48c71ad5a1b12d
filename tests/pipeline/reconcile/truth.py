"""What the tables must have, from the traffic itself: counted record by record, with sets of offsets and no ranges."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from pipeline.reconcile.emitted import BASE, discarded, epochs
from pipeline.reconcile.traffic import MINUTE, START, Counted, Traffic, reported

Row = dict[str, Any]
Key = tuple[str, int, str, str | None]  # topic, bucket, hop, group
SHARES = {"p50_ms": 500, "p95_ms": 950, "p99_ms": 990, "p999_ms": 999, "max_ms": 1000}


@dataclass(frozen=True, slots=True)
class Hole:
    emitter: str
    first: int
    end: int
    topics: frozenset[str]
    is_event_time: bool = False


def holes(made: Traffic, lateness: int) -> list[Hole]:
    topics: dict[str, set[str]] = defaultdict(set)
    for one in reported(made):
        topics[one.emitter].add(one.batch.topic)
    found = []
    for emitter in made.emitters():
        lives = list(epochs(made, emitter))
        for (_, _, end, is_closed), following in zip(lives, [*lives[1:], None], strict=True):
            if not is_closed:
                begin = START + end * MINUTE
                until = following[0] if following else begin + lateness
                found.append(Hole(emitter, begin, until, frozenset(topics[emitter])))
    for emitter, interval in made.discarded:
        times = discarded(made, emitter, interval)
        found.append(Hole(emitter, min(times), max(times) + 1, frozenset(topics[emitter]), is_event_time=True))
    return found


def rows(made: Traffic, lateness: int, clock_skew: int) -> dict[Key, Row]:
    """All rows, as they are once every sidecar has ended or has been silent for too long."""
    counted = list(reported(made))
    found: dict[Key, Row] = {}
    for topic, bucket in sorted({(one.batch.topic, one.batch.bucket) for one in counted}):
        here = [one for one in counted if (one.batch.topic, one.batch.bucket) == (topic, bucket)]
        produced = [one for one in here if one.group is None]
        if produced:
            found[topic, bucket, "produce", None] = _produced(bucket, produced)
        for group in sorted({one.group for one in counted if one.group and one.batch.topic == topic}):
            row = _delivered(topic, bucket, group, here, counted)
            if row:
                found[topic, bucket, "deliver", group] = row
    for (topic, bucket, _, _), row in found.items():
        row["state"] = _state(topic, bucket, row, holes(made, lateness), clock_skew)
    return found


def _total(found: list[Counted], tier: str, kind: str = "count", type_: str = "SUCCESS") -> int:
    return sum(one.batch.count for one in found if (one.tier, one.kind, one.type) == (tier, kind, type_))


def _produced(bucket: int, found: list[Counted]) -> Row:
    attempted = _total(found, "produce_attempt", type_="ATTEMPT")
    rejected = _total(found, "produce_ack", "reject", "FAILURE")
    failed = rejected + _total(found, "produce_ack", type_="FAILURE")
    redelivered = _total(found, "produce_ack", "redelivered")
    seen = _total(found, "produce_ack")
    expected = max(0, attempted - failed - redelivered)
    row = {
        "expected": expected, "seen": seen, "pending": 0, "missing": max(0, expected - seen),
        "surplus": max(0, seen - expected), "failed": failed, "rejected": rejected, "redelivered": redelivered,
        "hidden": 0, "aborted": 0, "settles_at": bucket + MINUTE,
    }  # fmt: skip
    acked = [one for one in found if one.tier == "produce_ack"]
    return row | _completeness(row) | _latency([one for one in acked if one.kind != "redelivered"])


def _delivered(topic: str, bucket: int, group: str, here: list[Counted], counted: list[Counted]) -> Row | None:
    mine = [one for one in counted if one.group == group and one.batch.topic == topic]
    since = min(START + (one.interval + 1) * MINUTE for one in mine)
    reach: dict[int, int] = {}
    begin: dict[int, int] = {}
    for one in mine:
        partition = one.batch.partition
        reach[partition] = max(reach.get(partition, -1), one.batch.last)
        begin[partition] = min(begin.get(partition, 2**62), one.batch.first)
    acked = {
        (one.batch.partition, offset)
        for one in here
        if (one.tier, one.type) == ("produce_ack", "SUCCESS")
        for offset in one.batch.offsets
        if bucket >= since or offset >= begin.get(one.batch.partition, 2**62)
    }
    got = {(one.batch.partition, offset) for one in mine for offset in one.batch.offsets}
    pending = {(partition, offset) for partition, offset in acked if offset > reach.get(partition, -1)}
    now = [one for one in here if one.group == group]
    sums = {kind: _total(now, "fetch_delivered", kind) for kind in ("redelivered", "hidden", "aborted")}
    expected = max(0, len(acked) - sums["hidden"] - sums["aborted"])
    seen = _total(now, "fetch_delivered")
    missing = len(acked - pending - got)
    if not (expected or seen or pending):
        return None
    settles = None if pending else max([bucket + MINUTE, *(_reached(mine, *end) for end in _ends(acked).items())])
    row = {
        "expected": expected, "seen": seen, "pending": len(pending), "missing": missing, "failed": 0, "rejected": 0,
        "surplus": max(0, seen + missing + len(pending) - expected), "settles_at": settles, **sums,
    }  # fmt: skip
    lost = {(partition, offset) for partition, offset in acked - pending - got}
    return row | {"lost": lost} | _completeness(row) | _latency([one for one in now if one.kind == "count"])


def _ends(acked: set[tuple[int, int]]) -> dict[int, int]:
    ends: dict[int, int] = {}
    for partition, offset in acked:
        ends[partition] = max(ends.get(partition, -1), offset)
    return ends


def _reached(mine: list[Counted], partition: int, offset: int) -> int:
    return min(
        START + (one.interval + 1) * MINUTE
        for one in mine
        if one.batch.partition == partition and one.batch.last >= offset
    )


def _completeness(row: Row) -> Row:
    due = row["expected"] - row["pending"]
    return {"completeness": max(0, due - row["missing"]) / due if due > 0 else None}


def _latency(found: list[Counted]) -> Row:
    counts: Counter[int] = Counter()
    for one in found:
        counts[one.latency] += one.batch.count
    sorted_indexes = sorted(counts.elements())
    if not sorted_indexes:
        return dict.fromkeys(SHARES)
    ranks = {name: -(-share * len(sorted_indexes) // 1000) for name, share in SHARES.items()}
    return {name: round(BASE ** sorted_indexes[rank - 1], 6) for name, rank in ranks.items()}


def _state(topic: str, bucket: int, row: Row, found: list[Hole], clock_skew: int) -> str:
    if row["settles_at"] is None:
        return "OPEN"
    for hole in found:
        if topic in hole.topics or not hole.topics:
            skew = 0 if hole.is_event_time else clock_skew
            end = bucket + MINUTE if hole.is_event_time else row["settles_at"] + skew
            if hole.first < end and hole.end > bucket - skew:
                return "UNKNOWN"
    return "FINAL"
