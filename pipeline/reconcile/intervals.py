"""What is known of each sidecar's reporting intervals: up to when all have reported, and what is missing for good.

Each interval of an epoch has a number without gaps, and says how many events it has. A missing one is waited for until
the sidecar has been silent for too long; then it is a hole.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window, functions, types

from kafka_sidecar.pipeline.reconcile.history import EPOCH, History
from kafka_sidecar.pipeline.reconcile.sql import column, computed, longs, union

HOLES = types.StructType(
    [
        types.StructField("emitter_id", types.StringType()),
        *longs("emitter_epoch", "from_seq", "to_seq", "from_ms", "to_ms", "lost_events"),
        types.StructField("cause", types.StringType()),
        types.StructField("topics", types.ArrayType(types.StringType())),
    ]
)
# Causes. Of lost events the event times are known, of all else only when it was counted.
MISSING, UNFINISHED, SILENT, DISCARDED = "missing", "unfinished", "silent", "discarded"


@dataclass(frozen=True, slots=True)
class Reported:
    """The state of all sidecars."""

    until: int  # ms; each sidecar has reported up to here, or what it has not is a hole
    holes: DataFrame


def reported(history: History, now: int, lateness: int) -> Reported:
    """What was reported, as of ``now``; both are in ms."""
    intervals = history.intervals
    # What was lost is known to be lost, and not waited for.
    complete = intervals.where("end_ms IS NOT NULL AND counted + lost_events >= expected")
    gaps = computed(union(_gaps(complete), _tails(intervals, complete)))
    newer = column("next_epoch").isNotNull()
    late = functions.lit(now) - functions.coalesce("to_ms", "from_ms") > lateness
    is_hole = newer | late
    waited = gaps.where(~is_hole).agg(functions.min("from_ms").alias("until")).first()
    until = now if waited is None or waited.until is None else min(now, int(waited.until))
    # Of a sidecar that is silent nothing is known, not even whether it still runs.
    end = functions.coalesce("to_ms", "next_epoch", column("from_ms") + lateness)
    holes = gaps.where(is_hole).withColumn("to_ms", end).where("to_ms > from_ms").drop("next_epoch")
    holes = union(holes, _discarded(intervals))
    names = history.topics.groupBy("emitter_id").agg(
        functions.array_sort(functions.collect_set("topic")).alias("topics")
    )
    with_topics = holes.join(names, "emitter_id", "left").withColumn(
        "topics", functions.coalesce("topics", functions.array().cast("array<string>"))
    )
    # They are few, and used several times.
    return Reported(until, computed(with_topics.select(HOLES.fieldNames())))


def _gaps(complete: DataFrame) -> DataFrame:
    """What is missing between complete intervals, or before the first one."""
    order = Window.partitionBy(*EPOCH).orderBy("interval_seq")
    before = functions.coalesce(functions.lag("interval_seq").over(order), functions.lit(-1))
    found = complete.withColumn("from_seq", before + 1).withColumn(
        "from_ms", functions.coalesce(functions.lag("end_ms").over(order), "emitter_epoch")
    )
    return found.where("from_seq < interval_seq").select(
        *EPOCH,
        "from_seq",
        (column("interval_seq") - 1).alias("to_seq"),
        "from_ms",
        column("start_ms").alias("to_ms"),
        functions.lit(None).cast("long").alias("next_epoch"),
        functions.lit(MISSING).alias("cause"),
    )


def _tails(intervals: DataFrame, complete: DataFrame) -> DataFrame:
    """What may be missing after the last complete interval of an epoch that was not closed."""
    epochs = intervals.select(*EPOCH).distinct()
    last = complete.groupBy(*EPOCH).agg(
        functions.max("interval_seq").alias("last_seq"),
        functions.max("end_ms").alias("last_ms"),
        functions.max("is_closing").alias("is_closing"),
    )
    order = Window.partitionBy("emitter_id").orderBy("emitter_epoch")
    known = epochs.join(last, EPOCH, "left").withColumn("next_epoch", functions.lead("emitter_epoch").over(order))
    return known.where("NOT coalesce(is_closing, false)").select(
        *EPOCH,
        (functions.coalesce("last_seq", functions.lit(-1)) + 1).alias("from_seq"),
        functions.lit(None).cast("long").alias("to_seq"),
        functions.coalesce("last_ms", "emitter_epoch").alias("from_ms"),
        functions.lit(None).cast("long").alias("to_ms"),
        "next_epoch",
        functions.when(column("next_epoch").isNotNull(), UNFINISHED).otherwise(SILENT).alias("cause"),
    )


def _discarded(intervals: DataFrame) -> DataFrame:
    """Events that a sidecar had no room for: the range of their event times, or else their interval."""
    return intervals.where("lost_events > 0").select(
        *EPOCH,
        column("interval_seq").alias("from_seq"),
        column("interval_seq").alias("to_seq"),
        functions.coalesce("lost_min_ts", "start_ms").alias("from_ms"),
        functions.coalesce(column("lost_max_ts") + 1, "end_ms").alias("to_ms"),
        "lost_events",
        functions.when(column("lost_min_ts").isNull(), MISSING).otherwise(DISCARDED).alias("cause"),
    )
