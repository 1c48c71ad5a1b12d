"""What a replay has found: computed by Spark from the rows of the result table, plain values for JSON and terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as f

from kafka_sidecar.pipeline.replay.job import Outcome

REASON = ("topic", "policy", "reason", "error_code")


@dataclass(frozen=True, slots=True)
class Place:
    """A rejected record, or a batch without ``offset``; nothing of its contents."""

    partition: int
    batch_offset: int
    offset: int | None
    timestamp: int | None  # ms since 1970
    message: str | None  # as the client would get it


@dataclass(frozen=True, slots=True)
class Reason:
    """The rejections of one policy for one reason."""

    topic: str
    policy: str
    reason: str
    error_code: int
    records: int
    batches: int
    first: Place
    last: Place
    samples: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Rejected records with the same key or header."""

    topic: str
    by: str
    records: int


@dataclass(frozen=True, slots=True)
class Validated:
    """What was read of one topic, and how much of it would have been rejected."""

    topic: str
    policy: str
    source: str
    mode: str
    partitions: int
    records: int
    batches: int
    size: int  # bytes in the log
    rejected_records: int  # that policies reject themselves
    rejected_batches: int
    records_of_rejected_batches: int  # a batch is rejected as a whole
    deleted: int  # offsets that were deleted before they were read


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result."""

    topics: tuple[Validated, ...]
    reasons: tuple[Reason, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...]
    seconds: float


Policies = dict[str, tuple[str, str, str]]  # topic: policy string, source, mode


def summarize(
    rows: DataFrame, policies: Policies, top: int, samples: int, notes: Iterable[str], seconds: float
) -> Report:
    """The report of the rows of a result table."""
    rejected = rows.filter(f.col("outcome") == Outcome.REJECTED.value)
    return Report(
        tuple(_topics(rows, policies)),
        tuple(_reasons(rejected, samples)),
        tuple(_groups(rejected, top)),
        tuple(notes),
        seconds,
    )


def _topics(rows: DataFrame, policies: Policies) -> list[Validated]:
    outcome = f.col("outcome")

    def total(column: str, of: Outcome) -> Column:
        return f.coalesce(f.sum(f.when(outcome == of.value, f.col(column))), f.lit(0))

    found = rows.groupBy("topic").agg(
        f.count_distinct("partition").alias("partitions"),
        total("records", Outcome.VALIDATED).alias("records"),
        total("batches", Outcome.VALIDATED).alias("batches"),
        total("size", Outcome.VALIDATED).alias("size"),
        total("records", Outcome.REJECTED).alias("rejected_records"),
        total("batches", Outcome.REJECTED).alias("rejected_batches"),
        total("batch_records", Outcome.REJECTED).alias("records_of_rejected_batches"),
        total("records", Outcome.DELETED).alias("deleted"),
    )
    counts = {row["topic"]: row.asDict() for row in found.collect()}
    zero = dict.fromkeys(Validated.__dataclass_fields__, 0)
    return [
        Validated(**{**zero, **counts.get(topic, {}), "topic": topic, "policy": text, "source": source, "mode": mode})
        for topic, (text, source, mode) in policies.items()
    ]


def _reasons(rejected: DataFrame, samples: int) -> list[Reason]:
    place = f.struct("timestamp", "partition", "batch_offset", "offset", "message")
    found = rejected.groupBy(*REASON).agg(
        f.sum("records").alias("records"),
        f.count_distinct("partition", "batch_offset").alias("batches"),
        f.min(place).alias("first"),
        f.max(place).alias("last"),
    )
    order = Window.partitionBy(*REASON).orderBy("timestamp", "partition", "batch_offset", "offset")
    some: dict[tuple[object, ...], list[Place]] = {}
    chosen = rejected.withColumn("n", f.row_number().over(order)).filter(f.col("n") <= samples)
    for row in chosen.sort(*REASON, "n").collect():
        some.setdefault(tuple(row[name] for name in REASON), []).append(_place(row))
    return [
        Reason(
            row["topic"], row["policy"], row["reason"], row["error_code"], row["records"], row["batches"],
            _place(row["first"]), _place(row["last"]), tuple(some.get(tuple(row[name] for name in REASON), ())),
        )
        for row in found.sort(f.desc("records"), *REASON).collect()
    ]  # fmt: skip


def _groups(rejected: DataFrame, top: int) -> list[Group]:
    found = rejected.filter(f.col("by").isNotNull()).groupBy("topic", "by").agg(f.sum("records").alias("records"))
    return [Group(*row) for row in found.sort(f.desc("records"), "topic", "by").limit(top).collect()]


def _place(row: Row) -> Place:
    return Place(*(row[name] for name in Place.__dataclass_fields__))
