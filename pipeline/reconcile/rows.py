"""The rows of a bucket: what was sent against what was acknowledged, and that against what each group was sent.

What consumers without a group were sent is a row of its own, compared with nothing.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions, types

from kafka_sidecar.audit.contract import SEVERAL_GROUPS
from kafka_sidecar.pipeline.reconcile import coverage
from kafka_sidecar.pipeline.reconcile.coverage import Groups
from kafka_sidecar.pipeline.reconcile.events import hour_of
from kafka_sidecar.pipeline.reconcile.history import GROUP
from kafka_sidecar.pipeline.reconcile.hops import GROUPED, PRODUCE, READ, hop_of_group, with_hop
from kafka_sidecar.pipeline.reconcile.latency import PERCENTILES, percentiles
from kafka_sidecar.pipeline.reconcile.sql import BUCKET, TOPIC, at_least_zero, beside, column, longs, total, union

KEY = [*BUCKET, "hop", "group"]
COUNTS = [
    "expected", "seen", "pending", "missing", "surplus", "failed", "rejected", "unconfirmed", "redelivered", "hidden",
    "aborted", "large", "segments", "no_timestamp", "bytes", "unattributed",
]  # fmt: skip
ROWS = types.StructType(
    [
        *(types.StructField(name, types.StringType()) for name in (*TOPIC, "hop", "group")),
        *longs("bucket_start", "bucket_ms", *COUNTS),
        *(types.StructField(name, types.DoubleType()) for name in ("completeness", *PERCENTILES)),
        *longs("lateness_ms", "clock_ahead_ms", "settles_at"),
        *(types.StructField(name, types.StringType()) for name in ("state", "hour")),
    ]
)


def bucket_rows(events: DataFrame, cut: DataFrame, groups: Groups) -> DataFrame:
    """All columns but state and hour; ``settles_at`` is null while a group has not reached the bucket's end."""
    hops = union(_produced(events), _delivered(events, cut, groups), _read(events))
    rows = _with_unattributed(hops, events).fillna(0, COUNTS)
    latencies = percentiles(with_hop(events), KEY)
    joined = beside(rows, latencies, KEY, "left").select(
        *rows.columns, *(column(f"other_{name}").alias(name) for name in PERCENTILES)
    )
    due = column("expected") - column("pending")
    complete = functions.when(due > 0, at_least_zero(due - column("missing")) / due)
    return joined.withColumn("completeness", complete).withColumn("hour", hour_of(column("bucket_start")))


def _with_unattributed(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Beside the rows of groups what was sent to clients that belong to several: it may have been for any of them."""
    several = events.where((column("tier") == "fetch_delivered") & (column("group") == SEVERAL_GROUPS))
    sums = several.groupBy(*BUCKET).agg(functions.sum(column("count") + column("redelivered_count")).alias("several"))
    unattributed = functions.when(column("hop").isin(*GROUPED), column("several"))
    return rows.join(sums, BUCKET, "left").withColumn("unattributed", unattributed).drop("several")


def _common() -> list[Column]:
    late = functions.max(column("emitted_at") - column("bucket_start") - column("bucket_ms"))
    return [
        functions.max("bucket_ms").alias("bucket_ms"),
        at_least_zero(late).alias("lateness_ms"),
        at_least_zero(functions.max(column("max_ts") - column("emitted_at"))).alias("clock_ahead_ms"),
    ]


def _sum(alias: str, name: str, where: str = "true") -> Column:
    return total(name, where).alias(alias)


def _produced(events: DataFrame) -> DataFrame:
    acked, failed = "tier = 'produce_ack' AND type = 'SUCCESS'", "tier = 'produce_ack' AND type = 'FAILURE'"
    sums = (
        events.where("tier IN ('produce_attempt', 'produce_ack')")
        .groupBy(*BUCKET)
        .agg(
            *_common(),
            _sum("attempted", "count", "tier = 'produce_attempt'"),
            _sum("seen", "count", acked),
            _sum("failed", "count", failed),
            _sum("rejected", "reject_count"),
            _sum("redelivered", "redelivered_count", acked),
            _sum("unconfirmed", "unconfirmed_count", acked),
            _sum("large", "large_count", acked),
            _sum("segments", "segment_count", acked),
            _sum("no_timestamp", "no_timestamp_count", acked),
            _sum("bytes", "bytes", acked),
        )
    )
    # A request that is sent again is attempted again, and acknowledged again.
    expected = at_least_zero(column("attempted") - column("failed") - column("redelivered"))
    return (
        sums.withColumn("expected", expected)
        .drop("attempted")
        .withColumns(
            {
                "hop": functions.lit(PRODUCE),
                "missing": at_least_zero(column("expected") - column("seen")),
                "surplus": at_least_zero(column("seen") - column("expected")),
                "settles_at": column("bucket_start") + column("bucket_ms"),
            }
        )
    )


def _delivered(events: DataFrame, cut: DataFrame, groups: Groups) -> DataFrame:
    expected = _expected(events, cut, groups)
    keys = [*BUCKET, "group"]
    seen = (
        with_hop(events)
        .where(column("hop").isin(*GROUPED))
        .groupBy(*keys)
        .agg(hop_of_group(), functions.min("ranges_exact").alias("delivered_exact"), *_sent())
    )
    both = beside(expected, seen, keys, "full")
    common = [*keys, "bucket_ms", "hop"]
    measured = [name for name in seen.columns if name not in common]
    picked = both.select(
        *(functions.coalesce(name, f"other_{name}").alias(name) for name in common),
        *("acked", "exact", "pending", "gaps", "unconfirmed", "reached_at"),
        *(column(f"other_{name}").alias(name) for name in measured),
    ).fillna(0, ["acked", "pending", "gaps", "seen", "hidden", "aborted"])
    return _compared(picked).where("expected > 0 OR seen > 0 OR pending > 0")


def _sent() -> list[Column]:
    """What readers were sent."""
    return [
        *_common(),
        _sum("seen", "count"),
        *(_sum(name, f"{name}_count") for name in ("redelivered", "hidden", "aborted", "no_timestamp")),
        _sum("large", "large_count"),
        _sum("segments", "segment_count"),
        _sum("bytes", "bytes"),
    ]


def _read(events: DataFrame) -> DataFrame:
    """What consumers without a group were sent, all together."""
    sums = with_hop(events).where(column("hop") == READ).groupBy(*BUCKET).agg(*_sent())
    end = column("bucket_start") + column("bucket_ms")
    return sums.withColumns({"hop": functions.lit(READ), "settles_at": end})


def _compared(both: DataFrame) -> DataFrame:
    """Missing by offsets, where these are exact; what was sent beyond the rest is surplus."""
    expected = at_least_zero(column("acked") - column("hidden") - column("aborted"))
    counted = at_least_zero(expected - column("pending") - column("seen"))
    is_exact = functions.coalesce("exact", functions.lit(False)) & functions.coalesce(
        "delivered_exact", functions.lit(True)
    )
    missing = functions.when(is_exact, column("gaps")).otherwise(functions.greatest("gaps", counted))
    surplus = at_least_zero(column("seen") + column("missing") + column("pending") - column("expected"))
    end = column("bucket_start") + column("bucket_ms")
    settles = functions.when(column("pending") == 0, functions.greatest(end, "reached_at"))
    return (
        both.withColumn("expected", expected)
        .withColumn("missing", missing)
        .withColumn("surplus", surplus)
        .withColumn("settles_at", settles)
        .drop("acked", "exact", "gaps", "reached_at", "delivered_exact")
    )


def _expected(events: DataFrame, cut: DataFrame, groups: Groups) -> DataFrame:
    """What each group of the topic should have been sent: acknowledged records since the group began."""
    keys = [*BUCKET, "partition"]
    acked = (
        events.where("tier = 'produce_ack' AND type = 'SUCCESS'")
        .groupBy(*keys)
        .agg(
            functions.max("bucket_ms").alias("bucket_ms"),
            functions.min(column("ranges_exact") & (column("unconfirmed_count") == 0)).alias("exact"),
            _sum("count", "count"),
            _sum("unconfirmed", "unconfirmed_count"),
        )
    )
    names = groups.partitions.select(*TOPIC, "group", "since", "hop").distinct()
    each = acked.join(names, TOPIC)
    parts = coverage.by_partition(cut)
    with_parts = each.join(parts, [*GROUP, "bucket_start"], "left").fillna(
        0, ["offsets", "before", "pending", "missing"]
    )
    due = with_parts.where("offsets > before OR (offsets = 0 AND count > 0 AND bucket_start >= since)")
    reached = coverage.reached_at(due.where("last IS NOT NULL"), groups.marks)
    # An acknowledgement that is repeated has the same offsets, even if the event with the first one is missing.
    number = functions.when(column("exact"), column("offsets")).otherwise(column("count"))
    timed = due.join(reached, [*GROUP, "bucket_start"], "left")
    return timed.groupBy(*BUCKET, "group").agg(
        functions.max("bucket_ms").alias("bucket_ms"),
        hop_of_group(),
        functions.min("exact").alias("exact"),
        functions.sum(at_least_zero(number - column("before"))).alias("acked"),
        total("pending"),
        functions.sum("missing").alias("gaps"),
        total("unconfirmed"),
        functions.max("at").alias("reached_at"),
    )
