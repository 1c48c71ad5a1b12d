"""What the tables must have, from the traffic itself: counted record by record, with sets of offsets and no ranges."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from pipeline.reconcile.emitted import BASE, discarded, epochs
from pipeline.reconcile.traffic import COMPACTED, MINUTE, START, Counted, Traffic, reported

Row = dict[str, Any]
Key = tuple[str, int, str, str | None]  # topic and life, bucket, hop, group
Offsets = dict[int, set[int]]  # by partition
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
        topics[one.emitter].add(one.batch.name)
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
    for topic, bucket in sorted({(one.batch.topic, one.bucket) for one in counted}):
        here = [one for one in counted if (one.batch.topic, one.bucket) == (topic, bucket)]
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


def _untimed(found: list[Counted], tier: str) -> int:
    kinds = ("count", "unconfirmed")
    mine = [one for one in found if (one.tier, one.type) == (tier, "SUCCESS") and one.kind in kinds]
    return sum(one.batch.count for one in mine if one.is_untimed)


def _large(found: list[Counted], tier: str) -> Row:
    kinds = ("count", "unconfirmed")
    mine = [one.batch for one in found if (one.tier, one.type) == (tier, "SUCCESS") and one.kind in kinds]
    return {"large": sum(one.large for one in mine), "segments": sum(one.segments for one in mine)}


def _produced(bucket: int, found: list[Counted]) -> Row:
    attempted = _total(found, "produce_attempt", type_="ATTEMPT")
    rejected = _total(found, "produce_ack", "reject", "FAILURE")
    failed = rejected + _total(found, "produce_ack", type_="FAILURE")
    redelivered = _total(found, "produce_ack", "redelivered")
    unconfirmed = _total(found, "produce_ack", "unconfirmed")
    seen = _total(found, "produce_ack") + unconfirmed
    expected = max(0, attempted - failed - redelivered)
    row = {
        "expected": expected, "seen": seen, "pending": 0, "missing": max(0, expected - seen),
        "surplus": max(0, seen - expected), "failed": failed, "rejected": rejected, "redelivered": redelivered,
        "hidden": 0, "aborted": 0, "settles_at": bucket + MINUTE, "unconfirmed": unconfirmed,
        "no_timestamp": _untimed(found, "produce_ack"), **_large(found, "produce_ack"),
    }  # fmt: skip
    acked = [one for one in found if one.tier == "produce_ack"]
    return row | _completeness(row) | _latency([one for one in acked if one.kind != "redelivered"])


def _delivered(topic: str, bucket: int, group: str, here: list[Counted], counted: list[Counted]) -> Row | None:
    mine = [one for one in counted if one.group == group and one.batch.topic == topic]
    read = [one for one in mine if one.tier == "fetch_delivered"]
    name = topic.partition("/")[0]
    of_name = [one for one in counted if (one.batch.name, one.group, one.tier) == (name, group, "fetch_delivered")]
    since = min(_reported_at(one) for one in of_name)  # also when it had another id
    reach = {partition: max(found) for partition, found in _offsets(mine).items()}
    begin = {partition: min(found) for partition, found in _offsets(read).items()}
    acked = _offsets([one for one in here if one.tier == "produce_ack" and one.has_offsets])
    due = {
        partition: {offset for offset in found if bucket >= since or offset >= begin.get(partition, 2**62)}
        for partition, found in acked.items()
    }
    got = _offsets(read)
    pending = {(partition, offset) for partition, offset in _each(due) if offset > reach.get(partition, -1)}
    lost = {(partition, offset) for partition, offset in _each(due) if offset not in got[partition]} - pending
    numbers, unconfirmed = _numbers(here, acked, due, bucket >= since)
    now = [one for one in here if one.group == group]
    sums = {kind: _total(now, "fetch_delivered", kind) for kind in ("redelivered", "hidden", "aborted")}
    expected = max(0, sum(numbers.values()) - sums["hidden"] - sums["aborted"])
    seen = _total(now, "fetch_delivered")
    missing = max(len(lost), expected - len(pending) - seen) if unconfirmed else len(lost)
    if not (expected or seen or pending):
        return None
    settles = None if pending else max([bucket + MINUTE, *(_reached(mine, *end) for end in _ends(due).items())])
    row = {
        "expected": expected, "seen": seen, "pending": len(pending), "missing": missing, "failed": 0, "rejected": 0,
        "surplus": max(0, seen + missing + len(pending) - expected), "settles_at": settles, **sums,
        "unconfirmed": unconfirmed, "no_timestamp": _untimed(now, "fetch_delivered"), **_large(now, "fetch_delivered"),
    }  # fmt: skip
    return row | {"lost": lost} | _completeness(row) | _latency([one for one in now if one.kind == "count"])


def _numbers(here: list[Counted], acked: Offsets, due: Offsets, is_whole: bool) -> tuple[Counter[int], int]:
    """By partition how many records the group should have got, and how many of these were sent with acks=0: nothing
    but their number is known, so in their partition numbers are compared, and not offsets."""
    numbers: Counter[int] = Counter()
    unconfirmed = 0
    for partition in {one.batch.partition for one in here if one.tier == "produce_ack"}:
        mine = [one for one in here if one.batch.partition == partition]
        without_offsets = _total(mine, "produce_ack", "unconfirmed")
        known, wanted = acked.get(partition, set()), due.get(partition, set())
        if wanted or (is_whole and not known and without_offsets):
            early = len(known) - len(wanted)
            number = max(0, _total(mine, "produce_ack") + without_offsets - early)
            numbers[partition] = number if without_offsets else len(wanted)
            unconfirmed += without_offsets
    return numbers, unconfirmed


def _each(offsets: Offsets) -> set[tuple[int, int]]:
    return {(partition, offset) for partition, found in offsets.items() for offset in found}


def _offsets(found: list[Counted]) -> Offsets:
    offsets: Offsets = defaultdict(set)
    for one in found:
        offsets[one.batch.partition].update(one.batch.offsets)
    return offsets


def _reported_at(one: Counted) -> int:
    return START + (one.interval + 1) * MINUTE


def _ends(due: Offsets) -> dict[int, int]:
    return {partition: max(found) for partition, found in due.items() if found}


def _reached(mine: list[Counted], partition: int, offset: int) -> int:
    return min(_reported_at(one) for one in mine if one.batch.partition == partition and one.batch.last >= offset)


def _completeness(row: Row) -> Row:
    due = row["expected"] - row["pending"]
    return {"completeness": max(0, due - row["missing"]) / due if due > 0 else None}


def _latency(found: list[Counted]) -> Row:
    counts: Counter[int] = Counter()
    for one in found:
        if one.latency is not None:
            counts[one.latency] += one.batch.count
    sorted_indexes = sorted(counts.elements())
    if not sorted_indexes:
        return dict.fromkeys(SHARES)
    ranks = {name: -(-share * len(sorted_indexes) // 1000) for name, share in SHARES.items()}
    return {name: round(BASE ** sorted_indexes[rank - 1], 6) for name, rank in ranks.items()}


def _state(topic: str, bucket: int, row: Row, found: list[Hole], clock_skew: int) -> str:
    if row["settles_at"] is None:
        return "OPEN"
    name = topic.partition("/")[0]
    if name == COMPACTED and "lost" in row and row["missing"]:
        return "COMPACTED"
    for hole in found:
        # A sidecar's first records of a topic may have been in its hole.
        if name in hole.topics or not hole.topics or ("lost" in row and row["missing"] + row["surplus"]):
            skew = 0 if hole.is_event_time else clock_skew
            end = bucket + MINUTE if hole.is_event_time else row["settles_at"] + skew
            if hole.first < end and hole.end > bucket - skew:
                return "UNKNOWN"
    return "FINAL"


def groups(made: Traffic) -> dict[tuple[str, int, str], Row]:
    """How far each group is, by topic, partition and group."""
    found: dict[tuple[str, int, str], Row] = {}
    for one in reported(made):
        if one.group is not None:
            key = one.batch.topic, one.batch.partition, one.group
            row = found.setdefault(key, dict.fromkeys(("first_delivered", "last_delivered", "last_committed")))
            if one.tier == "fetch_delivered":
                first = row["first_delivered"]
                row["first_delivered"] = one.batch.first if first is None else min(first, one.batch.first)
            last = "last_delivered" if one.tier == "fetch_delivered" else "last_committed"
            row[last] = max(one.batch.last, -1 if row[last] is None else row[last])
    for row in found.values():
        delivered, committed = row["last_delivered"], row["last_committed"]
        row["uncommitted"] = None if committed is None else max(0, delivered - committed)
    return found
