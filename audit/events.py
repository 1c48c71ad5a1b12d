"""From counts to events: the values of audit/event.schema.json."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_sidecar.audit.contract import TopicName
from kafka_sidecar.audit.event_counters import EventStats
from kafka_sidecar.audit.tally import Tally, attempts, encode

VERSION = 1
COPIES = ("duplicate_ranges", "resent_ranges")  # fields of few events: certain, possible
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Emitter:
    """Who emits."""

    emitter_id: str
    epoch: int  # when the process started, ms since 1970
    cluster: str | None = None
    dc: str | None = None
    app: str | None = None


class Interval(NamedTuple):
    """The events of one reporting interval."""

    counts: list[Event]
    end: Event  # the event of kind interval


def interval_events(
    emitter: Emitter,
    number: int,
    stats: tuple[EventStats, ...],
    start: int,
    end: int,
    emitted_at: int,
    is_closing: bool = False,
) -> Interval:
    """The events of the interval with this number, from ``start`` to ``end`` (ms since 1970)."""
    bodies = [body for one in stats for body in _bodies(one)]
    overfull = [one.room for one in stats if one.room.lost_min_ts is not None]
    common = {
        "version": VERSION, "emitter_id": emitter.emitter_id, "emitter_epoch": emitter.epoch, "interval_seq": number,
        # What had no room is an event that was lost: what it counted is unknown.
        "interval_events": len(bodies) + len(overfull),
        "cluster": emitter.cluster, "dc": emitter.dc, "app": emitter.app, "emitted_at": emitted_at,
    }  # fmt: skip
    counts = [
        {**common, "kind": "counts", "audit_id": str(uuid.uuid4()), "event_index": index, **body}
        for index, body in enumerate(bodies)
    ]
    return Interval(
        counts,
        {
            **common, "kind": "interval", "audit_id": str(uuid.uuid4()), "interval_start": start, "interval_end": end,
            "is_closing": is_closing, "lost_events": len(overfull),
            "lost_min_ts": min((room.lost_min_ts for room in overfull if room.lost_min_ts is not None), default=None),
            "lost_max_ts": max((room.lost_max_ts for room in overfull if room.lost_max_ts is not None), default=None),
        },
    )  # fmt: skip


def _bodies(stats: EventStats) -> Iterator[Event]:
    """The part of each event that says what was counted."""
    acked = stats.acked.values()
    for tier, type_, tallies in (
        ("produce_attempt", "ATTEMPT", attempts((stats.acked, stats.failed, stats.unknown))),
        ("produce_ack", "SUCCESS", acked),
        ("produce_ack", "FAILURE", stats.failed.values()),
        ("fetch_delivered", "SUCCESS", stats.delivered.values()),
        ("share_delivered", "SUCCESS", stats.shared.values()),
        ("commit", "SUCCESS", stats.committed.values()),
    ):
        for tally in tallies:
            body = {"tier": tier, "type": type_, "bucket_ms": stats.bucket_ms, **_counts(tally)}
            if isinstance(tally.topic, TopicName):
                body["topic_id"] = urlsafe_b64encode(tally.topic.topic_id).rstrip(b"=").decode()
            if tallies is acked and (copies := stats.copies.get(tally)) is not None:
                body |= {name: one.pairs() for name, one in zip(COPIES, copies, strict=True) if len(one)}
            yield body


def _counts(tally: Tally) -> Event:
    offsets = tally.offsets
    return {
        "topic": str(tally.topic), "partition": tally.partition, "client_id": tally.client_id,
        "principal": tally.principal, "group": tally.group, "bucket_start": tally.bucket_start,
        "count": tally.count, "bytes": tally.bytes, "large_count": tally.large, "segment_count": tally.segments,
        "reject_count": tally.rejected, "redelivered_count": tally.repeated, "hidden_count": tally.hidden,
        "aborted_count": tally.aborted, "no_timestamp_count": tally.untimed, "unconfirmed_count": tally.unconfirmed,
        "min_ts": tally.min_ts, "max_ts": tally.max_ts, "first_offset": offsets.first, "last_offset": offsets.last,
        "ranges": offsets.pairs(), "ranges_exact": offsets.is_exact, "latency": encode(tally.latency),
    }  # fmt: skip
