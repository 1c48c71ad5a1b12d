"""`reconcile` from its settings: once over all events that are there, or for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.pipeline.brokers import check_brokers, with_timeouts
from kafka_sidecar.pipeline.dead_letters.source import read_letters
from kafka_sidecar.pipeline.reconcile.compacted import CompactedTopics, cluster_policies
from kafka_sidecar.pipeline.reconcile.events import from_files, from_kafka
from kafka_sidecar.pipeline.reconcile.job import Job, Limits, Written, wall_clock
from kafka_sidecar.pipeline.reconcile.rejected import sums_lines, write_table
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sections import Reconcile
from kafka_sidecar.proxy.telemetry.readable import counted

FILES_AT_A_TIME = 100


@dataclass(frozen=True, slots=True)
class Source:
    """Where events are read from: an audit topic, or files."""

    topic: str
    folder: str | None
    file_format: str


def reconcile(
    config: Config,
    source: Source,
    interval_s: float | None,
    now: int | None,
    echo: Callable[[str], None],
    dead_letters: Sequence[str] = (),
) -> None:
    """Run it; with an interval until it is interrupted. Without one what was rejected is compared with
    ``dead_letters``, the topics that have it.

    Raises:
        JarError: Spark's connector is missing.
        UnreachableError: the brokers do not respond.
        LogError: a dead letter topic cannot be read.
        ValueError: the tables are not whole.
    """
    settings = config.pipeline.reconcile
    spark = start_session(config.pipeline, "reconcile", uses_kafka=source.folder is None)
    if source.folder is None:
        check_brokers(spark, config.bootstrap_servers, config.pipeline.kafka)
    clock = wall_clock if now is None else lambda: now
    ask = None
    if source.folder is None:
        ask = cluster_policies(spark, config.bootstrap_servers, config.pipeline.kafka)
    compacted = CompactedTopics(settings.compacted_topics, ask)
    tables, report = Tables(spark, settings.path), lambda written: echo(line(written))
    job = Job(spark, tables, _limits(settings), clock, report, compacted.of)
    events = _events(spark, config, source)
    if interval_s is None:
        query = job.start(events, availableNow=True)
    else:
        query = job.start(events, processingTime=f"{interval_s} seconds")
    try:
        query.awaitTermination()
        if dead_letters:
            letters = read_letters(spark, config, dead_letters)
            for line_ in sums_lines(write_table(tables, letters)):
                echo(line_)
    except KeyboardInterrupt:
        query.stop()
    finally:
        spark.stop()


def _limits(settings: Reconcile) -> Limits:
    lateness, skew, retention = (
        round(1000 * seconds) for seconds in (settings.lateness, settings.clock_skew, settings.retention)
    )
    return Limits(lateness, skew, retention, settings.target)


def _events(spark: SparkSession, config: Config, source: Source) -> DataFrame:
    if source.folder is not None:
        return from_files(spark, source.folder, source.file_format, FILES_AT_A_TIME)
    servers, at_a_time = ",".join(config.bootstrap_servers), config.pipeline.reconcile.max_events
    return from_kafka(spark, servers, source.topic, with_timeouts(config.pipeline.kafka), at_a_time)


def line(written: Written) -> str:
    """What a batch has done."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(written.states.items())) or "none"
    return (
        f"batch {written.batch}: {counted(written.events, 'new event')}, {counted(written.hours, 'hour')} computed, "
        f"rows: {states}; alerts: {written.alerts}"
    )
