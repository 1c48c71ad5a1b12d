"""Short names for what every query here is made of."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, functions, types

column = functions.col
PARTITIONS = "spark.sql.shuffle.partitions"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
MAX_BROADCAST = 10 << 20  # bytes; Spark's default
PARTITION_BYTES = 16 << 20  # of stored events: ten times as much while they are compared
SMALL_BYTES = 1 << 20  # of stored events: to spread them takes longer than to compare them

TOPIC = ["cluster", "topic", "topic_id"]  # one that is created again has another id; "": it is not known
BUCKET = [*TOPIC, "bucket_start"]
PARTITION = [*TOPIC, "partition"]


def longs(*names: str) -> list[types.StructField]:
    return [types.StructField(name, types.LongType()) for name in names]


def partitions_of(size: int | None, cores: int) -> int:
    """How many partitions so many bytes of stored events are compared in; None if it is not known how many."""
    if size is not None and size <= SMALL_BYTES:
        return 1
    return max(2 * cores, (size or 0) // PARTITION_BYTES)


def fit(spark: SparkSession, size: int | None = None) -> None:
    """Have Spark compare so many bytes in as many partitions as they need, unless it is configured: it joins small
    partitions, but splits none. In one partition a join needs nothing, where a broadcast would be a job."""
    configured = spark.sparkContext.getConf()
    if not configured.contains(PARTITIONS):
        spark.conf.set(PARTITIONS, partitions_of(size, spark.sparkContext.defaultParallelism))
    if not configured.contains(BROADCAST):
        spark.conf.set(BROADCAST, -1 if is_small(spark) else MAX_BROADCAST)


def is_small(spark: SparkSession) -> bool:
    """Whether there is so little to compute that one task is enough."""
    return bool(spark.conf.get(PARTITIONS) == "1")


def together(rows: DataFrame) -> DataFrame:
    """In one partition if that is enough: Spark then plans no shuffle, each of which takes longer than few rows do."""
    return rows.coalesce(1) if is_small(rows.sparkSession) else rows


def computed(rows: DataFrame) -> DataFrame:
    """The same rows, computed once for all who use them. With `cache` each use would plan again what leads to them."""
    # With columns of their own: Spark fails on some joins of rows with what they were computed from.
    return together(rows.localCheckpoint().toDF(*rows.columns))


def union(first: DataFrame, *others: DataFrame) -> DataFrame:
    """The rows of all; a column that some of them have not got is null there."""
    whole = first
    for one in others:
        whole = whole.unionByName(one, allowMissingColumns=True)
    return together(whole)


def apart(rows: DataFrame, name: str) -> DataFrame:
    """What has the same value of a column is in the same partition."""
    return rows.coalesce(1) if is_small(rows.sparkSession) else rows.repartition(name)


def empty(spark: SparkSession, schema: types.StructType) -> DataFrame:
    """No rows, of which a plan has nothing left; `createDataFrame` would start Python on the executors."""
    columns = [functions.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    return spark.range(0).select(*columns)


def with_texts(rows: DataFrame, *names: str) -> DataFrame:
    """The rows with "" in place of null in these columns, by which rows are compared."""
    return rows.withColumns({name: functions.coalesce(name, functions.lit("")) for name in names})


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
