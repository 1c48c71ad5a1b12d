"""Percentiles of merged log buckets: sums of integers, so the same in any order of events."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window, functions

from kafka_sidecar.pipeline.reconcile.sql import column

# Column, and the share of all records in thousandths.
PERCENTILES = {"p50_ms": 500, "p95_ms": 950, "p99_ms": 990, "p999_ms": 999, "max_ms": 1000}


def percentiles(events: DataFrame, keys: Sequence[str]) -> DataFrame:
    """For each key the least upper bound of a bucket that no more than the rest of the records are above, in ms."""
    latency = column("latency")
    pairs = events.where(latency.isNotNull()).select(
        *keys,
        latency["base"].alias("base"),
        functions.explode(functions.arrays_zip(latency["i"].alias("i"), latency["c"].alias("c"))).alias("pair"),
    )
    bound = functions.pow("base", column("pair.i")).alias("bound")
    merged = pairs.groupBy(*keys, bound).agg(functions.sum("pair.c").alias("count"))
    order = Window.partitionBy(*keys).orderBy("bound")
    running = merged.withColumn("running", functions.sum("count").over(order))
    ranked = running.withColumn("all", functions.sum("count").over(Window.partitionBy(*keys)))
    return ranked.groupBy(*keys).agg(
        *(
            functions.min(functions.when(column("running") * 1000 >= column("all") * share, column("bound"))).alias(
                name
            )
            for name, share in PERCENTILES.items()
        )
    )
