"""What the report shows, computed by Spark from the tables of `reconcile`: each section is a small table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession, functions, types

from kafka_sidecar.pipeline.reconcile import intervals, rejected
from kafka_sidecar.pipeline.reconcile.coverage import COPIES
from kafka_sidecar.pipeline.reconcile.events import hour_of, stored_schema
from kafka_sidecar.pipeline.reconcile.hops import GROUPED, PRODUCE, with_hop
from kafka_sidecar.pipeline.reconcile.latency import PERCENTILES, percentiles
from kafka_sidecar.pipeline.reconcile.rows import ROWS
from kafka_sidecar.pipeline.reconcile.sql import beside, column, longs, total
from kafka_sidecar.pipeline.reconcile.tables import Tables

if TYPE_CHECKING:
    import pyarrow

MAX_POINTS = 200  # of a line
MAX_TOPICS = 12  # with a picture of their own
MAX_ROWS = 100  # of a table
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
STEPS = [*(n * MINUTE for n in (1, 5, 10, 30)), *(n * HOUR for n in (1, 3, 6, 12)), *(n * DAY for n in (1, 7, 28))]
LINES = ("completeness", "latency", "lateness")  # bounded by `MAX_POINTS` and `MAX_TOPICS`
HOP = ["cluster", "topic", "hop", "group"]
STRING = types.StringType()
LOSSES = types.StructType(
    [
        *(types.StructField(name, STRING) for name in ("cluster", "topic", "group", "finding", "state", "hour")),
        *longs("partition", "first_offset", "last_offset"),
        types.StructField("buckets", types.ArrayType(types.LongType())),
    ]
)
ALERTS = types.StructType(
    [
        *(types.StructField(name, STRING) for name in (*HOP, "state", "hour")),
        *longs("bucket_start", "raised_missing", "missing"),
        *(types.StructField(name, types.DoubleType()) for name in ("raised_completeness", "completeness")),
        types.StructField("is_resolved", types.BooleanType()),
    ]
)
REPLAY = (
    "reasons array<struct<topic: string, policy: string, reason: string, error_code: int, "
    "records: long, batches: long>>"
)


@dataclass(frozen=True, slots=True)
class Report:
    """The period in ms UTC (0 and 0: there is no bucket), the time between points of a line, and the sections."""

    begin: int
    end: int
    step: int
    sections: dict[str, pyarrow.Table]


def compute(spark: SparkSession, path: str, since: int, replay: str | None = None) -> Report:
    """The report on the buckets that begin at ``since`` (ms) or later, from the tables below ``path``.

    ``replay`` is the file report.json of `replay-policy`, whose rejections are shown beside.
    """
    tables = Tables(spark, path)

    def read(name: str, schema: types.StructType) -> DataFrame:
        return tables.read(name, schema).where(column("hour") >= hour_of(functions.lit(since)))

    rows = read("reconcile", ROWS).where(column("bucket_start") >= since).cache()
    begin, end, bucket_ms = _period(rows)
    step = step_of(begin, end, bucket_ms)
    at = (functions.floor(column("bucket_start") / step) * step).alias("at")
    first_hour = f"{datetime.fromtimestamp(since / 1000, UTC):%Y-%m-%d-%H}"
    folders = [one for one in tables.folders("events") if one.hour >= first_hour]
    events = tables.read_folders("events", stored_schema(), folders).where(column("bucket_start") >= since)
    worst = _worst(rows)
    found = {
        "topics": _topics(rows, events),
        "completeness": _completeness(rows, at),
        "worst": worst,
        "losses": _losses(read("losses", LOSSES), worst),
        "alerts": read("alerts", ALERTS).where(column("bucket_start") >= since).orderBy("is_resolved", "bucket_start"),
        "holes": tables.read("holes", intervals.HOLES).where(column("to_ms") >= since).orderBy("from_ms"),
        "latency": _latency(events, at),
        "rejections": _rejections(rows),
        "lateness": _lateness(rows, at),
    }
    if tables.exists(rejected.TABLE):
        found["dead_letters"] = _dead_letters(read(rejected.TABLE, rejected.REJECTED))
    if replay is not None:
        found["replay"] = _replay(spark, replay)
    arrow = {name: (frame if name in LINES else frame.limit(MAX_ROWS)).toArrow() for name, frame in found.items()}
    rows.unpersist()
    return Report(begin, end, step, arrow)


def step_of(begin: int, end: int, bucket_ms: int) -> int:
    """The time between points: a bucket, or the first of `STEPS` of which a line needs no more than `MAX_POINTS`."""
    wanted = max(bucket_ms, (end - begin) // MAX_POINTS, 1)
    return bucket_ms if wanted == bucket_ms else next((step for step in STEPS if step >= wanted), STEPS[-1])


def _period(rows: DataFrame) -> tuple[int, int, int]:
    end = functions.max(column("bucket_start") + column("bucket_ms"))
    found = rows.agg(functions.min("bucket_start").alias("begin"), end.alias("end"), functions.max("bucket_ms")).first()
    return (0, 0, 1) if found is None or found.begin is None else (found.begin, found.end, found[2])


def _share() -> Column:
    """Of the records that are due, those that are not missing: from sums, never from the shares of buckets."""
    there = functions.greatest(column("due") - column("missing"), functions.lit(0))
    return functions.when(column("due") > 0, there / column("due")).alias("completeness")


def _sums() -> list[Column]:
    """What is due and missing where it is known, and the number of buckets in other states."""
    # What is missing of a compacted topic may have been deleted.
    known, due = "state NOT IN ('UNKNOWN', 'OPEN', 'PROVISIONAL', 'COMPACTED')", column("expected") - column("pending")
    return [
        functions.coalesce(functions.sum(functions.when(functions.expr(known), due)), functions.lit(0)).alias("due"),
        total("missing", known),
        functions.count_if(column("state") == "UNKNOWN").alias("unknown"),
        functions.count_if(column("state").isin("OPEN", "PROVISIONAL")).alias("not_yet"),
    ]


def _worst_first() -> list[Column]:
    return [column(name).desc() for name in ("missing", "unknown", "due")]


def _topics(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Each hop of each topic over the whole period."""
    counts = ("expected", "seen", "pending", "surplus", "redelivered", "hidden", "aborted", "unconfirmed")
    sums = rows.groupBy(*HOP).agg(*_sums(), *(total(name) for name in counts)).withColumn("completeness", _share())
    measured = beside(sums, percentiles(with_hop(events), HOP), HOP, "left")
    named = [column(f"other_{name}").alias(name) for name in PERCENTILES]
    return measured.select(*sums.columns, *named).orderBy(*_worst_first(), *HOP)


def _completeness(rows: DataFrame, at: Column) -> DataFrame:
    """The points of a line for each hop of the topics that miss most."""
    names = ["cluster", "topic"]
    pictured = rows.groupBy(*names).agg(*_sums()).orderBy(*_worst_first(), *names).limit(MAX_TOPICS).select(*names)
    points = rows.join(functions.broadcast(pictured), names).groupBy(*HOP, at).agg(*_sums())
    return points.withColumn("completeness", _share()).orderBy(*HOP, "at")


def _worst(rows: DataFrame) -> DataFrame:
    """The buckets with the most missing records, then those of which least is known."""
    picked = rows.where("(missing > 0 AND state != 'COMPACTED') OR surplus > 0 OR state = 'UNKNOWN'")
    order = (column("state") == "UNKNOWN", column("missing").desc(), column("surplus").desc(), "bucket_start", *HOP)
    return picked.orderBy(*order).select(
        *HOP, "bucket_start", "bucket_ms", "expected", "seen", "pending", "missing", "surplus", "completeness", "state"
    )


def _losses(losses: DataFrame, worst: DataFrame) -> DataFrame:
    """The ranges of offsets of the worst buckets, and copies."""
    keys = ["cluster", "topic", "group"]
    each = (
        worst.limit(MAX_ROWS)
        .where(column("hop").isin(*GROUPED))
        .groupBy(*keys)
        .agg(functions.collect_set("bucket_start").alias("worst_buckets"))
    )
    found = losses.join(functions.broadcast(each), keys).where(functions.arrays_overlap("buckets", "worst_buckets"))
    copies = losses.where(column("finding").isin(*COPIES))
    return found.select(losses.columns).unionByName(copies).orderBy("finding", *keys, "partition", "first_offset")


def _latency(events: DataFrame, at: Column) -> DataFrame:
    """Percentiles of all topics together, from merged log buckets."""
    return percentiles(with_hop(events).withColumn("at", at), ["hop", "at"]).orderBy("hop", "at")


def _rejections(rows: DataFrame) -> DataFrame:
    """What became of attempts that were not acknowledged."""
    sums = [total("rejected"), (total("failed") - total("rejected")).alias("failed"), total("missing")]
    names = ["cluster", "topic"]
    counted = (
        rows.where(column("hop") == PRODUCE)
        .groupBy(*names)
        .agg(functions.sum(column("expected") + column("failed")).alias("attempted"), *sums)
    )
    picked = counted.where("rejected + failed + missing > 0").withColumnRenamed("missing", "unanswered")
    return picked.orderBy(column("rejected").desc(), column("failed").desc(), *names)


def _dead_letters(rows: DataFrame) -> DataFrame:
    """What was rejected, and where it is, by topic."""
    sums = rows.groupBy("topic").agg(
        *(total(name) for name in rejected.COUNTS), functions.max("is_unknown").alias("is_unknown")
    )
    return sums.orderBy(column("lost").desc(), column("rejected").desc(), "topic")


def _lateness(rows: DataFrame, at: Column) -> DataFrame:
    measured = [functions.max(name).alias(name) for name in ("lateness_ms", "clock_ahead_ms")]
    return rows.groupBy("hop", at).agg(*measured).orderBy("hop", "at")


def _replay(spark: SparkSession, path: str) -> DataFrame:
    """What a replay has rejected, by reason."""
    reasons = spark.read.schema(REPLAY).json(path, multiLine=True).select(functions.inline("reasons"))
    return reasons.orderBy(column("records").desc())
