"""The state of each row, what has been published as final, and the alerts that follow."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window, functions, types

from kafka_sidecar.pipeline.reconcile.hops import GROUPED, PRODUCE, SHARE
from kafka_sidecar.pipeline.reconcile.intervals import Reported
from kafka_sidecar.pipeline.reconcile.rows import KEY
from kafka_sidecar.pipeline.reconcile.sql import TOPIC, beside, column, longs
from kafka_sidecar.pipeline.reconcile.touches import touches_of, with_touched

OPEN, PROVISIONAL, UNKNOWN, FINAL, CORRECTED = "OPEN", "PROVISIONAL", "UNKNOWN", "FINAL", "CORRECTED"
COMPACTED = "COMPACTED"
# With these only new events or other holes change a row.
SETTLED = (UNKNOWN, COMPACTED, FINAL, CORRECTED)
MEASURED = ["expected", "seen", "missing", "surplus"]
FINALS = types.StructType(
    [
        *(types.StructField(name, types.StringType()) for name in (*TOPIC, "hop", "group")),
        *longs("bucket_start", *MEASURED, "published"),
        types.StructField("completeness", types.DoubleType()),
        *(types.StructField(name, types.StringType()) for name in ("state", "hour", "batch")),
    ]
)


def with_states(
    rows: DataFrame,
    reported: Reported,
    finals: DataFrame,
    now: int,
    clock_skew: int,
    compacted: Collection[tuple[str, str]] = (),
) -> DataFrame:
    """The rows with their state. ``finals`` has what earlier batches have published, ``compacted`` clusters and topics
    of which brokers keep only the last record of each key."""
    end = column("bucket_start") + column("bucket_ms")
    settles = column("settles_at") + clock_skew
    settled_at = functions.coalesce("settles_at", functions.lit(now))
    known = with_touched(rows, touches_of(reported.holes.collect()), settled_at, is_balanced(), clock_skew)
    joined = beside(known, _last(finals), KEY, "left")
    state = (
        functions.when(column("settles_at").isNull() | (end > now), OPEN)
        .when(settles > reported.until, PROVISIONAL)
        .when((column("missing") > 0) & column("hop").isin(*GROUPED) & _is_one_of(compacted), COMPACTED)
        .when(column("is_touched") | _may_have_another_reason(), UNKNOWN)
        .when(column("other_state").isNull(), FINAL)
        .when(_is_unchanged(), column("other_state"))
        .otherwise(CORRECTED)
    )
    return joined.select(*rows.columns, state.alias("state"))


def _is_one_of(topics: Collection[tuple[str, str]]) -> Column:
    # A text for each: Spark compares one column with many values, but not two with many pairs.
    names = [f"{cluster}\n{topic}" for cluster, topic in topics]
    return functions.concat_ws("\n", "cluster", "topic").isin(names) if names else functions.lit(False)


def is_balanced() -> Column:
    """Whether no other sidecar's counts could change what a row says. Attempts have their result in the same event."""
    return (column("hop") == PRODUCE) | ((column("missing") == 0) & (column("surplus") == 0))


def _may_have_another_reason() -> Column:
    """Whether what is missing need not be lost. A share group may give it out later, or has archived it: a broker does
    not say. Or it was sent to a client that belongs to several groups."""
    return (column("missing") > 0) & ((column("hop") == SHARE) | (column("unattributed") > 0))


def newly_final(rows: DataFrame, finals: DataFrame, batch: int) -> DataFrame:
    """The rows that are final for the first time, or with other numbers than before."""
    settled = rows.where(column("state").isin(FINAL, CORRECTED))
    known = _is_unchanged() & (column("state") == column("other_state"))
    new = beside(settled, _last(finals), KEY, "left_anti", known).withColumn("published", functions.lit(batch))
    return new.select(*[name for name in FINALS.fieldNames() if name != "batch"])


def _is_unchanged() -> Column:
    """Of a row beside what was published last."""
    equal = functions.lit(True)
    for name in MEASURED:
        equal = equal & (column(name) == column(f"other_{name}"))
    return equal


def _last(finals: DataFrame) -> DataFrame:
    """What was published last for each key."""
    order = Window.partitionBy(*KEY).orderBy(column("published").desc())
    return finals.withColumn("n", functions.row_number().over(order)).where("n = 1").drop("n")


def alerts(finals: DataFrame, rows: DataFrame, target: float) -> DataFrame:
    """One row for each key that was final below the target: as it was first, and as it is now."""
    order = Window.partitionBy(*KEY).orderBy("published")
    below = finals.where(_is_below(target)).withColumn("n", functions.row_number().over(order)).where("n = 1")
    now = rows.withColumn(
        "is_below", functions.coalesce(_is_below(target) & (column("state") != COMPACTED), functions.lit(False))
    )
    return beside(below, now, KEY, "left").select(
        "hour",
        *KEY,
        *(column(name).alias(f"raised_{name}") for name in ("missing", "completeness")),
        *(column(f"other_{name}").alias(name) for name in ("missing", "completeness", "state")),
        (~functions.coalesce("other_is_below", functions.lit(False))).alias("is_resolved"),
    )


def _is_below(target: float) -> Column:
    # An attempt without a response is no loss: the client knows of it.
    return (column("completeness") * 100 < target) & (column("hop") != PRODUCE)
