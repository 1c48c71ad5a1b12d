"""What was sent = what is stored + dead letters: the records that the sidecars have rejected, and where they are.

What was sent once more from a dead letter topic is counted apart: it would be sent twice, and rejected twice. Letters
are in the hour of their batch, whose event time is its greatest timestamp, as the audit has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions, types

from kafka_sidecar.pipeline.reconcile.events import hour_of, stored_schema
from kafka_sidecar.pipeline.reconcile.hops import PRODUCE
from kafka_sidecar.pipeline.reconcile.rows import ROWS
from kafka_sidecar.pipeline.reconcile.sql import at_least_zero, column, longs, total
from kafka_sidecar.pipeline.reconcile.states import UNKNOWN
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.proxy.security.client_settings import REPLAY_CLIENT_ID

TABLE = "dead_letters"
COUNTS = ["sent", "stored", "rejected", "other", "dead_letters", "lost", "surplus", "doubled", "replayed"]
REJECTED = types.StructType(
    [
        types.StructField("topic", types.StringType()),
        types.StructField("hour", types.StringType()),
        *longs(*COUNTS),
        types.StructField("is_unknown", types.BooleanType()),
    ]
)


@dataclass(frozen=True, slots=True)
class Sums:
    """A topic over all hours whose events are kept."""

    topic: str
    sent: int
    stored: int
    rejected: int
    dead_letters: int
    lost: int
    replayed: int
    is_unknown: bool


def write_table(tables: Tables, letters: DataFrame, topics: Collection[str] = ()) -> list[Sums]:
    """Compare the events that are stored with letters, and write the table.

    ``letters`` are rows of the data source of letters; ``topics`` have dead letters, even if there are none yet.
    """
    tables.describe("compare rejections with dead letters")
    events = tables.read_folders("events", stored_schema(), tables.folders("events"))
    rows = compare(events, letters, tables.read("reconcile", ROWS), topics)
    tables.write_all(TABLE, rows)
    written = tables.read(TABLE, REJECTED)
    sums = [total(name) for name in ("sent", "stored", "rejected", "dead_letters", "lost", "replayed")]
    found = written.groupBy("topic").agg(*sums, functions.max("is_unknown").alias("is_unknown")).orderBy("topic")
    return [Sums(**row.asDict()) for row in found.collect()]


def compare(events: DataFrame, letters: DataFrame, rows: DataFrame, topics: Collection[str] = ()) -> DataFrame:
    """One row for each topic with dead letters, and hour."""
    counted = _counted(events)
    found = _lettered(letters)
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
    measured = filled.withColumns({"lost": lost, "surplus": surplus, "other": other})
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


def _lettered(letters: DataFrame) -> DataFrame:
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
    )


def sums_lines(found: Sequence[Sums]) -> Iterable[str]:
    """A line for each topic."""
    for one in found:
        unknown = "; some hours are UNKNOWN" if one.is_unknown else ""
        yield (
            f"{one.topic}: {one.sent} sent = {one.stored} stored + {one.rejected} rejected"
            f"{_other(one)}; {one.dead_letters} dead letters, {one.lost} lost, {one.replayed} replayed{unknown}"
        )


def _other(one: Sums) -> str:
    other = one.sent - one.stored - one.rejected
    return f" + {other} failed or without a response" if other > 0 else ""
