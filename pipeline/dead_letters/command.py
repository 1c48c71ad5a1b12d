"""`kafka-sidecar pipeline dead-letters report` and `replay`: from flags to tables and numbers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafka_sidecar.dead_letters.letters import Choice
from kafka_sidecar.pipeline import failures
from kafka_sidecar.pipeline.brokers import UnreachableError
from kafka_sidecar.pipeline.dead_letters import replay
from kafka_sidecar.pipeline.dead_letters.replay import ReplayJob
from kafka_sidecar.pipeline.dead_letters.source import read_letters
from kafka_sidecar.pipeline.records.kafka_log import LogError
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError, connect
from kafka_sidecar.proxy.cli.dead_letters.options import time_text
from kafka_sidecar.proxy.cli.dead_letters.printing import no_letters, table
from kafka_sidecar.proxy.cli.dead_letters.replay import Tally
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.client_settings import client_settings
from kafka_sidecar.proxy.telemetry.readable import counted

FAILURES = (LogError, UnreachableError, ClusterError, *failures.FAILURES)
LETTERS, REPORT = "letters", "report"
HOUR_MS = 3_600_000
MAX_SHOWN = 50
TITLES = ("letters", "topic", "policy", "reason", "mode", "batches", "clients", "first", "last", "example")


@dataclass(frozen=True, slots=True)
class Group:
    """The letters of a topic, policy, reason and mode."""

    topic: str
    policy: str
    reason: str
    mode: str
    letters: int
    batches: int
    clients: int
    first: int  # ms since 1970, of the rejection
    last: int
    example: str  # topic:partition:offset


@dataclass(frozen=True, slots=True)
class Report:
    """What is in dead letter topics."""

    letters: int
    twice: int  # letters of which there is an earlier one of the same record
    groups: tuple[Group, ...]  # the largest first
    no_letters: dict[str, int]  # by what is missing


def report(config: Config, topics: Sequence[str], choice: Choice, path: str) -> Report:
    """Read whole dead letter topics; the table of letters, and that by hour, are written to the path.

    Raises one of `FAILURES`, or ValueError: a setting is wrong.
    """
    spark = start_session(config.pipeline, "dead-letters report", uses_kafka=False)
    try:
        return summarize(spark, read_letters(spark, config, topics), choice, path)
    finally:
        spark.stop()


def summarize(spark: SparkSession, rows: DataFrame, choice: Choice, path: str) -> Report:
    """Write the tables, and sum them up."""
    chosen(rows, choice).write.mode("overwrite").parquet(f"{path}/{LETTERS}")
    stored = spark.read.parquet(f"{path}/{LETTERS}")
    letters = stored.where("trouble IS NULL")
    hour = (f.floor(f.col("rejected_at") / HOUR_MS) * HOUR_MS).alias("hour")
    by_hour = letters.groupBy("topic", "policy", "reason", "mode", "client_id", hour).agg(f.count("*").alias("letters"))
    by_hour.coalesce(1).write.mode("overwrite").parquet(f"{path}/{REPORT}")
    number, distinct = letters.agg(f.count("*"), f.count_distinct("topic", "rejection_id", "record_index")).first()
    others = stored.where("trouble IS NOT NULL").groupBy("trouble").count().collect()
    return Report(number, number - distinct, tuple(_groups(letters)), {one[0]: one[1] for one in sorted(others)})


def chosen(rows: DataFrame, choice: Choice) -> DataFrame:
    """The letters that are meant; what is no letter stays."""
    is_meant = f.lit(True)
    for column, wanted in (
        ("topic", choice.topics), ("policy", choice.policies), ("reason", choice.reasons),
        ("rejection_id", choice.rejection_ids),
    ):  # fmt: skip
        if wanted:
            is_meant &= f.col(column).isin(sorted(wanted))
    if choice.since is not None:
        is_meant &= f.col("rejected_at") >= choice.since
    if choice.until is not None:
        is_meant &= f.col("rejected_at") < choice.until
    return rows.where(is_meant | f.col("trouble").isNotNull())


def _groups(letters: DataFrame) -> list[Group]:
    place = f.concat_ws(":", "letter_topic", "letter_partition", "letter_offset")
    found = letters.groupBy("topic", "policy", "reason", "mode").agg(
        f.count("*").alias("letters"), f.count_distinct("rejection_id").alias("batches"),
        f.count_distinct("client_id").alias("clients"), f.min("rejected_at").alias("first"),
        f.max("rejected_at").alias("last"), f.min_by(place, "rejected_at").alias("example"),
    )  # fmt: skip
    rows = found.sort(f.desc("letters"), "topic", "policy", "reason", "mode").collect()
    return [Group(**row.asDict()) for row in rows]


def report_lines(found: Report, path: str) -> list[str]:
    """The report for a person."""
    rows = [
        (str(one.letters), one.topic, one.policy, one.reason, one.mode, str(one.batches), str(one.clients),
         time_text(one.first), time_text(one.last), one.example)
        for one in found.groups[:MAX_SHOWN]
    ]  # fmt: skip
    lines = [*table([TITLES, *rows])] if rows else ["no dead letters"]
    if len(found.groups) > MAX_SHOWN:
        lines.append(f"and {counted(len(found.groups) - MAX_SHOWN, 'more group')}")
    lines += [f"{no_letters(count)}: {why}" for why, count in found.no_letters.items()]
    if found.twice:
        lines.append(f"{counted(found.twice, 'letter')} more than once")
    return [*lines, f"tables: {path}/{LETTERS}, {path}/{REPORT}"]


def report_json(found: Report) -> str:
    return json.dumps(asdict(found), indent=2)


def replay_all(config: Config, job: ReplayJob, topics: Sequence[str]) -> Tally:
    """Replay all partitions of these dead letter topics. Raises one of `FAILURES`, or ValueError."""
    partitions = asyncio.run(_partitions(job, topics))  # before Spark, which takes seconds to start
    spark = start_session(config.pipeline, "dead-letters replay", uses_kafka=False)
    try:
        return replay.run(spark, job, partitions)
    finally:
        spark.stop()


async def _partitions(job: ReplayJob, topics: Sequence[str]) -> list[tuple[str, int]]:
    async with connect(client_settings(job.servers, job.properties)) as cluster:
        return [(topic, number) for topic in await cluster.expand(topics) for number in await cluster.partitions(topic)]
