"""`kafka-sidecar pipeline replay-policy`: from flags to slices, rows, table and report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from kafka_sidecar.pipeline import failures
from kafka_sidecar.pipeline.brokers import UnreachableError
from kafka_sidecar.pipeline.records.kafka_log import Bound, LogError, find_ranges
from kafka_sidecar.pipeline.records.segments import find_segments
from kafka_sidecar.pipeline.records.slices import Slice, cut_slices
from kafka_sidecar.pipeline.replay.console import run_with_progress, show
from kafka_sidecar.pipeline.replay.job import Grouping, Job
from kafka_sidecar.pipeline.replay.report import Policies, Report, summarize
from kafka_sidecar.pipeline.replay.source import load_rows
from kafka_sidecar.pipeline.replay.validation import find_applied, open_rules
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.plugins.units import milliseconds
from kafka_sidecar.policies.plans import Plan
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.client_settings import client_settings

FAILURES = (LogError, UnreachableError, *failures.FAILURES)
TABLE, REPORT = "rows", "report.json"
CLOCK = (
    "policy {}: the log does not say when a broker got a record, unless the topic has LogAppendTime; "
    "timestamps are compared with the newest one of their batch"
)


@dataclass(frozen=True, slots=True)
class Request:
    """What is replayed, and what of it is shown."""

    topics: tuple[str, ...]
    policy: str | None = None
    first: Bound | None = None
    end: Bound | None = None
    segments: Path | None = None
    by: str | None = None  # "key" or "header:NAME"
    plain: bool = False
    top: int = 10
    samples: int = 3
    path: str = "kafka-sidecar-replay"


def parse_bound(text: str | None, now_ms: int) -> Bound | None:
    """An offset, a time (UTC unless it says otherwise), or how long ago.

    >>> parse_bound("42", 0), parse_bound("30d", 2592000001), parse_bound("1970-01-02", 0)
    (Bound(offset=42, time_ms=None), Bound(offset=None, time_ms=1), Bound(offset=None, time_ms=86400000))

    Raises:
        ValueError: it is none of these.
    """
    if text is None:
        return None
    if text.isdecimal():
        return Bound(offset=int(text))
    try:
        at = datetime.fromisoformat(text)
        return Bound(time_ms=round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
    except ValueError:
        pass
    try:
        return Bound(time_ms=now_ms - milliseconds(text))
    except ValueError:
        raise ValueError(f"write an offset, a time as 2026-10-01T08:00, or a duration as 30d, not {text!r}") from None


def parse_grouping(by: str | None, plain: bool) -> Grouping | None:
    """Raises ValueError: it is neither "key" nor "header:NAME"."""
    if by is None:
        return None
    kind, _, name = by.partition(":")
    if by != "key" and (kind != "header" or not name):
        raise ValueError(f"--by: write key or header:NAME in place of {by!r}")
    return Grouping(name or None, plain)


def main(config: Config, request: Request, as_json: bool) -> None:
    """Run the job and print its report. Raises what `replay_policy` does."""
    report = replay_policy(config, request, Console(stderr=True))
    print_report(report, request, as_json, Console())


def replay_policy(config: Config, request: Request, console: Console) -> Report:
    """Run the job; the table and the report are written to the path.

    Raises:
        ValueError: a flag or the configuration is wrong, or a topic has no policy.
        One of `FAILURES`: the topic cannot be read, or a task has failed.
    """
    job = Job(config, request.policy, parse_grouping(request.by, request.plain))
    policies, notes = describe_policies(job, request.topics)
    # Before Spark, which takes seconds to start.
    if request.segments is not None:
        slices, ranges = find_segments(request.segments, list(request.topics)), {}
    else:
        settings = client_settings(config.bootstrap_servers, config.pipeline.kafka)
        slices, ranges = [], find_ranges(settings, request.topics, request.first, request.end)
        if all(first >= end for first, end in ranges.values()):
            raise LogError(f"{', '.join(request.topics)}: there is no record in this range")
    # Our bar shows the same as Spark's.
    quiet = {"spark.ui.showConsoleProgress": "false"} | config.pipeline.spark
    spark = start_session(config.pipeline.model_copy(update={"spark": quiet}), "replay-policy", uses_kafka=False)
    slices = slices or cut_slices(ranges, spark.sparkContext.defaultParallelism)
    return run(spark, job, slices, request, policies, notes, console)


def run(
    spark: SparkSession, job: Job, slices: Sequence[Slice], request: Request, policies: Policies,
    notes: Sequence[str], console: Console,
) -> Report:  # fmt: skip
    """Replay slices, write the table and the report."""
    begun, table = time.monotonic(), f"{request.path}/{TABLE}"

    def write() -> None:
        load_rows(spark, job, slices).write.mode("overwrite").parquet(table)

    run_with_progress(spark, "replay", console, write)
    seconds = time.monotonic() - begun
    report = summarize(spark.read.parquet(table), policies, request.top, request.samples, notes, seconds)
    _write_report(spark, f"{request.path}/{REPORT}", report)
    return report


def report_json(report: Report) -> str:
    """The report as JSON."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False)


def print_report(report: Report, request: Request, as_json: bool, console: Console) -> None:
    """The report on the terminal."""
    if as_json:
        console.file.write(report_json(report) + "\n")
    else:
        show(report, request.by, console)
        console.print(
            f"table: {request.path}/{TABLE}, report: {request.path}/{REPORT}", highlight=False, soft_wrap=True
        )


def describe_policies(job: Job, topics: Sequence[str]) -> tuple[Policies, list[str]]:
    """What is applied to each topic, and what cannot be replayed exactly. Raises ValueError."""
    rules = open_rules(job)
    found: Policies = {}
    notes: dict[str, None] = {}
    for topic in topics:
        applied = find_applied(rules, topic)
        source = applied.source if job.policy is None else "--policy"
        found[topic] = (applied.text, source, applied.mode)
        notes |= dict.fromkeys(_notes(applied.plan))
    return found, list(notes)


def _notes(plan: Plan) -> Iterator[str]:
    for rule in plan.rules:
        if hasattr(rule.policy, "clock"):
            yield CLOCK.format(rule.name)


def _write_report(spark: SparkSession, path: str, report: Report) -> None:
    """With Hadoop's file systems: the path may be a URI that only Spark can write to."""
    java = spark.sparkContext._jvm
    assert java is not None
    place = java.org.apache.hadoop.fs.Path(path)
    file = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).create(place, True)
    try:
        file.write(bytearray(report_json(report).encode()))
    finally:
        file.close()
