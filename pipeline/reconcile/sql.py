"""Short names for what every query here is made of."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, functions, types

column = functions.col
PARTITIONS = "spark.sql.shuffle.partitions"

BUCKET = ["cluster", "topic", "bucket_start"]
PARTITION = ["cluster", "topic", "partition"]


def longs(*names: str) -> list[types.StructField]:
    return [types.StructField(name, types.LongType()) for name in names]


def is_small(spark: SparkSession) -> bool:
    """Whether there is so little to compute that one task is enough."""
    return bool(spark.conf.get(PARTITIONS) == "1")


def together(rows: DataFrame) -> DataFrame:
    """In one partition if that is enough: Spark then plans no shuffle, each of which takes longer than few rows do."""
    return rows.coalesce(1) if is_small(rows.sparkSession) else rows


def apart(rows: DataFrame, name: str) -> DataFrame:
    """What has the same value of a column is in the same partition."""
    return rows.coalesce(1) if is_small(rows.sparkSession) else rows.repartition(name)


def empty(spark: SparkSession, schema: types.StructType) -> DataFrame:
    """No rows, of which a plan has nothing left; `createDataFrame` would start Python on the executors."""
    columns = [functions.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    return spark.range(0).select(*columns)


def at_least_zero(value: Column) -> Column:
    return functions.greatest(value, functions.lit(0))


def total(name: str, where: str = "true") -> Column:
    """The sum of a column over the rows for which a condition holds; 0 if there are none."""
    return (
        functions.coalesce(functions.sum(functions.when(functions.expr(where), column(name))), functions.lit(0))
        .cast("long")
        .alias(name)
    )


def beside(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str, also: Column | None = None) -> DataFrame:
    """A join in which null equals null. The columns of the right side are found as ``other_<name>``."""
    renamed = right.withColumnsRenamed({name: f"other_{name}" for name in right.columns})
    condition = functions.lit(True) if also is None else also
    for key in keys:
        condition = condition & column(key).eqNullSafe(column(f"other_{key}"))
    return left.join(renamed, condition, how)
