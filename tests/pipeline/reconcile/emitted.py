"""The audit events of known traffic, as the sidecars send them: ranges joined, an event for each key and interval."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.reconcile.traffic import MINUTE, OLD_EMITTER, START, Counted, Traffic, reported

Event = dict[str, Any]
BASE = 1.1
KINDS = {"redelivered": "redelivered_count", "hidden": "hidden_count", "aborted": "aborted_count"}


def emit(made: Traffic) -> list[Event]:
    """All events, in the order in which they are made."""
    by_interval: dict[tuple[str, int], list[Counted]] = defaultdict(list)
    for one in reported(made):
        by_interval[one.emitter, one.interval].append(one)
    events = []
    for emitter in made.emitters():
        for epoch, first, end, is_closed in epochs(made, emitter):
            for interval in range(first, end):
                lost = (emitter, interval) in made.discarded
                common = {
                    "version": 1, "emitter_id": emitter, "emitter_epoch": epoch, "interval_seq": interval - first,
                    "cluster": "c1", "dc": None, "app": None, "emitted_at": START + (interval + 1) * MINUTE,
                }  # fmt: skip
                found = [_of_emitter(emitter, one) for one in _counts(by_interval[emitter, interval])]
                number = 1 if lost else len(found)
                for index, counts in enumerate(found):
                    events.append(
                        common
                        | counts
                        | _id(emitter, interval, index)
                        | {"event_index": index, "interval_events": number}
                    )
                events.append(common | _id(emitter, interval, -1) | {
                    "kind": "interval", "interval_events": number, "interval_start": START + interval * MINUTE,
                    "interval_end": START + (interval + 1) * MINUTE, "is_closing": is_closed and interval == end - 1,
                    "lost_events": int(lost), "lost_min_ts": min(discarded(made, emitter, interval), default=None),
                    "lost_max_ts": max(discarded(made, emitter, interval), default=None),
                })  # fmt: skip
    return sorted(events, key=lambda event: int(event["emitted_at"]))


def discarded(made: Traffic, emitter: str, interval: int) -> list[int]:
    """The event times of what a sidecar counted, but had no room for."""
    here = [one for one in made.counted if (one.emitter, one.interval) == (emitter, interval)]
    return [one.time for one in here] if (emitter, interval) in made.discarded else []


def epochs(made: Traffic, emitter: str) -> Iterator[tuple[int, int, int, bool]]:
    """(start in ms, first interval, one after the last, whether it ended in good order) of each process."""
    begin = 0
    for dead in made.killed:
        if dead.emitter == emitter:
            yield START + begin * MINUTE, begin, dead.first, False
            begin = dead.again
    if begin < made.minutes:
        yield START + begin * MINUTE, begin, made.minutes, True


def _id(emitter: str, interval: int, index: int) -> Event:
    return {"audit_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{emitter} {interval} {index}"))}


def _of_emitter(emitter: str, counts: Event) -> Event:
    return {name: value for name, value in counts.items() if name != "topic_id" or emitter != OLD_EMITTER}


def _counts(counted: Iterable[Counted]) -> Iterator[Event]:
    """One event for each key, as in the schema."""
    keyed: dict[tuple[Any, ...], list[Counted]] = defaultdict(list)
    for one in counted:
        batch = one.batch
        keyed[one.tier, one.type, batch.topic, batch.partition, one.group or "", one.bucket].append(one)
    for key, found in sorted(keyed.items()):
        tier, kind, _, partition, group, bucket = key
        yield {
            "kind": "counts", "tier": tier, "type": kind, "topic": found[0].batch.name, "partition": partition,
            "topic_id": found[0].batch.topic_id,
            "group": group or None, "bucket_start": bucket, "bucket_ms": MINUTE, "client_id": "app", "principal": None,
        } | _sums(found) | _offsets(found)  # fmt: skip


def _sums(found: list[Counted]) -> Event:
    plain = [one for one in found if one.kind not in KINDS]
    latency: dict[int, int] = defaultdict(int)
    for one in plain:
        if one.latency is not None:
            latency[one.latency] += one.batch.count
    sums = {name: sum(one.batch.count for one in found if one.kind == kind) for kind, name in KINDS.items()}
    indexes = sorted(latency)
    return sums | {
        "count": sum(one.batch.count for one in plain),
        "bytes": 100 * sum(one.batch.count for one in plain),
        "reject_count": sum(one.batch.count for one in found if one.kind == "reject"),
        "large_count": sum(one.batch.large for one in plain),
        "segment_count": sum(one.batch.segments for one in plain),
        "no_timestamp_count": sum(one.batch.count for one in plain if one.is_untimed),
        "unconfirmed_count": sum(one.batch.count for one in plain if one.kind == "unconfirmed"),
        "min_ts": min(one.time for one in found), "max_ts": max(one.time for one in found),
        "latency": {"base": BASE, "i": indexes, "c": [latency[i] for i in indexes]} if indexes else None,
    }  # fmt: skip


def _offsets(found: list[Counted]) -> Event:
    ranges: list[list[int]] = []
    for offset in sorted({offset for one in found if one.has_offsets for offset in one.batch.offsets}):
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    first, last = (ranges[0][0], ranges[-1][1]) if ranges else (None, None)
    return {"first_offset": first, "last_offset": last, "ranges": ranges, "ranges_exact": True}


def disturb(events: list[Event], seed: int) -> list[Event]:
    """As they arrive: out of order, some late by several intervals, some twice."""
    dice = random.Random(seed)
    arrived: list[tuple[float, int, Event]] = []
    for number, event in enumerate(events):
        delay = dice.random() * MINUTE / 2 + (dice.choice((3, 8)) * MINUTE if dice.random() < 0.05 else 0)
        arrived.append((event["emitted_at"] + delay, number, event))
        if dice.random() < 0.08:
            arrived.append((event["emitted_at"] + delay + dice.random() * 10 * MINUTE, number, event))
    return [event for _, _, event in sorted(arrived, key=lambda one: one[:2])]
