"""How little is computed: in one task, without a shuffle."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.pipeline.reconcile.job import PARTITION_BYTES, SMALL_BYTES, partitions_of
from kafka_sidecar.pipeline.reconcile.sql import apart, column, together


def shuffles(rows: DataFrame) -> int:
    return str(rows._jdf.queryExecution().executedPlan()).count("Exchange hashpartitioning")


def query(spark: SparkSession) -> DataFrame:
    """A sum and a join, each of which needs the rows of a key in the same partition."""
    rows = together(spark.range(0, 40, 1, 4).select((column("id") % 7).alias("key"), "id"))
    sums = rows.groupBy("key").sum("id")
    return apart(rows, "key").hint("merge").join(sums.hint("merge"), "key")


def test_little_is_computed_without_a_shuffle(spark: SparkSession) -> None:
    rows = query(spark)
    assert (rows.rdd.getNumPartitions(), shuffles(rows)) == (1, 0)
    assert rows.count() == 40


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
