"""How little is computed: in one task, without a shuffle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.pipeline.reconcile.sql import (
    BROADCAST,
    PARTITION_BYTES,
    SMALL_BYTES,
    apart,
    column,
    computed,
    fit,
    partitions_of,
    together,
    union,
)


def plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan())


def shuffles(rows: DataFrame) -> int:
    return plan(rows).count("Exchange hashpartitioning")


def query(spark: SparkSession) -> DataFrame:
    """A sum and a join, each of which needs the rows of a key in the same partition."""
    rows = together(spark.range(0, 40, 1, 4).select((column("id") % 7).alias("key"), "id"))
    sums = rows.groupBy("key").sum("id")
    return apart(rows, "key").hint("merge").join(sums.hint("merge"), "key")


def test_little_is_computed_without_a_shuffle(spark: SparkSession) -> None:
    rows = query(spark)
    assert (rows.rdd.getNumPartitions(), shuffles(rows)) == (1, 0)
    assert rows.count() == 40


@pytest.mark.parametrize("made", [lambda rows: union(rows, rows), computed], ids=["union", "computed"])
def test_what_is_made_of_little_stays_in_one_partition(spark: SparkSession, made: Callable[..., DataFrame]) -> None:
    rows = made(spark.range(0, 40, 1, 4))
    assert rows.rdd.getNumPartitions() == 1
    assert shuffles(rows.groupBy("id").count()) == 0


def test_a_column_that_a_part_of_a_union_has_not_got_is_null(spark: SparkSession) -> None:
    ids = spark.range(1).select("id")
    rows = union(ids, ids.withColumn("more", column("id") + 1), ids)
    assert sorted(map(tuple, rows.collect()), key=str) == [(0, 1), (0, None), (0, None)]


def test_little_is_not_broadcast(spark: SparkSession) -> None:
    rows = together(spark.range(0, 40, 1, 4))
    spark.conf.unset(BROADCAST)
    assert "Broadcast" in plan(rows.join(rows, "id"))
    fit(spark)
    assert "Broadcast" not in plan(rows.join(rows, "id"))


@pytest.mark.usefixtures("several_partitions")
def test_all_else_is_spread(spark: SparkSession) -> None:
    rows = query(spark)
    assert (rows.rdd.getNumPartitions(), shuffles(rows) > 0) == (3, True)
    assert rows.count() == 40


@pytest.mark.parametrize(
    ("size", "cores", "number"),
    [
        (0, 2, 1),
        (SMALL_BYTES, 2, 1),
        (SMALL_BYTES + 1, 2, 4),
        (10 * PARTITION_BYTES, 2, 10),
        (None, 8, 16),  # what it reads is not known yet
    ],
)
def test_the_partitions_follow_from_the_size_and_the_cores(size: int | None, cores: int, number: int) -> None:
    assert partitions_of(size, cores) == number
