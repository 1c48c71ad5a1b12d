"""What was sent = what is stored + dead letters: the records that the sidecars have rejected, and where they are.

What was sent once more from a dead letter topic is counted apart: it would be sent twice, and rejected twice. Letters
are in the hour of their batch, whose event time is its greatest timestamp, as the audit has it.

A sidecar that is killed has not reported what it counted last: its letters may be there, and nothing says that they had
to be. Letters of the time of such a hole may make up for as many that are lost, so then there is a least and a most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row, functions, types

from kafka_sidecar.pipeline.reconcile.events import hour_of, stored_schema
from kafka_sidecar.pipeline.reconcile.hops import PRODUCE
from kafka_sidecar.pipeline.reconcile.intervals import DISCARDED, HOLES, MISSING, SILENT, UNFINISHED
from kafka_sidecar.pipeline.reconcile.rows import ROWS
from kafka_sidecar.pipeline.reconcile.sql import at_least_zero, column, longs, total
from kafka_sidecar.pipeline.reconcile.states import UNKNOWN
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.reconcile.touches import is_in_spans, joined
from kafka_sidecar.proxy.cli.dead_letters.options import time_text
from kafka_sidecar.proxy.security.client_settings import REPLAY_CLIENT_ID

TABLE = "dead_letters"
COUNTS = [
    "sent", "stored", "rejected", "other", "dead_letters", "lost", "surplus", "doubled", "replayed", "lost_at_most",
]  # fmt: skip
MAX_HOLES = 20  # that are printed
WHY = {
    MISSING: "reports are missing",
    UNFINISHED: "it ended without its last report, as after a kill",
    SILENT: "it has reported nothing since",
    DISCARDED: "it had no room for events",
}
REJECTED = types.StructType(
    [
        types.StructField("topic", types.StringType()),
        types.StructField("hour", types.StringType()),
        *longs(*COUNTS),
        types.StructField("is_unknown", types.BooleanType()),
    ]
)


@dataclass(frozen=True, slots=True)
class Hole:
    """What a sidecar has not reported, by the time at which it was counted."""

    emitter_id: str
    from_ms: int
    to_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class Sums:
    """A topic over all hours whose events are kept."""

    topic: str
    sent: int
    stored: int
    rejected: int
    dead_letters: int
    lost: int
    surplus: int
    doubled: int
    replayed: int
    lost_at_most: int
    is_unknown: bool
    holes: tuple[Hole, ...] = field(default=())


def write_table(tables: Tables, letters: DataFrame, topics: Collection[str] = ()) -> list[Sums]:
    """Compare the events that are stored with letters, and write the table.

    ``letters`` are rows of the data source of letters; ``topics`` have dead letters, even if there are none yet.
    """
    tables.describe("compare rejections with dead letters")
    events = tables.read_folders("events", stored_schema(), tables.folders("events"))
    holes = tables.read("holes", HOLES).collect()
    rows = compare(events, letters, tables.read("reconcile", ROWS), topics, holes)
    tables.write_all(TABLE, rows)
    written = tables.read(TABLE, REJECTED)
    names = ("sent", "stored", "rejected", "dead_letters", "lost", "surplus", "doubled", "replayed", "lost_at_most")
    sums = [total(name) for name in names]
    found = written.groupBy("topic").agg(*sums, functions.max("is_unknown").alias("is_unknown")).orderBy("topic")
    return [Sums(**row.asDict(), holes=_holes_of(holes, row.topic)) for row in found.collect()]


def _holes_of(holes: Iterable[Row], topic: str) -> tuple[Hole, ...]:
    """Those in which records of a topic may have been counted."""
    found = [
        Hole(one.emitter_id, one.from_ms, one.to_ms, one.cause)
        for one in holes
        if not one.topics or topic in one.topics
    ]
    return tuple(sorted(found, key=lambda one: (one.from_ms, one.emitter_id)))


def compare(
    events: DataFrame, letters: DataFrame, rows: DataFrame, topics: Collection[str] = (), holes: Collection[Row] = ()
) -> DataFrame:
    """One row for each topic with dead letters, and hour."""
    counted = _counted(events)
    found = _lettered(letters, _in_holes(holes))
    named = found.select("topic").distinct()
    for topic in topics:
        named = named.union(named.sparkSession.range(1).select(functions.lit(topic).alias("topic")))
    hours = counted.select("hour").distinct()
    # A letter of an hour whose events are deleted is compared with nothing.
    both = counted.join(named.distinct(), "topic").join(
        found.join(hours, "hour", "left_semi"), ["topic", "hour"], "full"
    )
    unknown = (
        rows.where((column("hop") == PRODUCE) & (column("state") == UNKNOWN))
        .select("topic", "hour", functions.lit(True).alias("is_unknown"))
        .distinct()
    )
    filled = both.join(unknown, ["topic", "hour"], "left").fillna(0).fillna(False)
    lost = at_least_zero(column("rejected") - column("dead_letters"))
    surplus = at_least_zero(column("dead_letters") - column("rejected"))
    other = at_least_zero(column("sent") - column("stored") - column("rejected"))
    # Letters of what no sidecar has reported are among those of the time of holes.
    at_most = at_least_zero(column("rejected") - (column("dead_letters") - column("in_holes")))
    measured = filled.withColumns({"lost": lost, "surplus": surplus, "other": other, "lost_at_most": at_most})
    return measured.select(*REJECTED.fieldNames())


def _counted(events: DataFrame) -> DataFrame:
    acked = "tier = 'produce_ack' AND type = 'SUCCESS'"
    is_replay = f"coalesce(client_id, '') = '{REPLAY_CLIENT_ID}'"
    first = f"NOT ({is_replay})"
    # A request that is sent again is attempted again, and acknowledged again.
    attempts = total("count", f"tier = 'produce_attempt' AND {first}")
    sent = at_least_zero(attempts - total("redelivered_count", f"{acked} AND {first}"))
    return (
        events.where("tier IN ('produce_attempt', 'produce_ack')")
        .groupBy("topic", hour_of(column("bucket_start")).alias("hour"))
        .agg(
            sent.alias("sent"),
            total("count", f"{acked} AND {first}").alias("stored"),
            total("reject_count", first).alias("rejected"),
            total("count", f"{acked} AND {is_replay}").alias("replayed"),
        )
    )


def _in_holes(holes: Iterable[Row]) -> Column:
    """Whether a batch was rejected while some sidecar counted what it has not reported."""
    spans = joined((one.from_ms, one.to_ms) for one in holes if one.cause != DISCARDED)
    return is_in_spans(spans, column("rejected_at"))


def _lettered(letters: DataFrame, is_in_hole: Column) -> DataFrame:
    """Records by topic and hour; a record of which there are two letters counts once."""
    own = letters.where("trouble IS NULL AND mode = 'enforce'")
    batches = own.groupBy("topic", "rejection_id").agg(
        functions.count_distinct("record_index").alias("records"),
        functions.count("*").alias("letters"),
        functions.max("timestamp").alias("timestamp"),
        functions.max("rejected_at").alias("rejected_at"),
    )
    # A batch without a timestamp has the time of arrival.
    at = functions.when(column("timestamp") >= 0, column("timestamp")).otherwise(column("rejected_at"))
    return batches.groupBy("topic", hour_of(at).alias("hour")).agg(
        functions.sum("records").alias("dead_letters"),
        functions.sum(column("letters") - column("records")).alias("doubled"),
        functions.sum(functions.when(is_in_hole, column("records")).otherwise(0)).alias("in_holes"),
    )


def sums_lines(found: Sequence[Sums]) -> Iterable[str]:
    """A line for each topic; and what is not known of it."""
    for one in found:
        parts = [f"{one.dead_letters} dead letters, {_lost(one)} lost, {one.replayed} replayed"]
        if one.surplus:
            parts.append(f"{one.surplus} dead letters more than sidecars have reported")
        if one.doubled:
            parts.append(f"{one.doubled} dead letters are there twice")
        if one.is_unknown:
            parts.append("some hours are UNKNOWN")
        yield (
            f"{one.topic}: {one.sent} sent = {one.stored} stored + {one.rejected} rejected{_other(one)}; "
            + "; ".join(parts)
        )
        if one.holes:
            yield f"{one.topic}: not in these numbers is what was counted and never reported, stored and rejected:"
        for hole in one.holes[:MAX_HOLES]:
            times = f"{time_text(hole.from_ms)} to {time_text(hole.to_ms)}"
            yield f"  {times}, {hole.emitter_id}: {WHY.get(hole.cause, hole.cause)}"
        if len(one.holes) > MAX_HOLES:
            yield f"  and {len(one.holes) - MAX_HOLES} more, in the table of holes"


def _lost(one: Sums) -> str:
    return str(one.lost) if one.lost_at_most <= one.lost else f"{one.lost} to {one.lost_at_most}"


def _other(one: Sums) -> str:
    other = one.sent - one.stored - one.rejected
    return f" + {other} failed or without a response" if other > 0 else ""
