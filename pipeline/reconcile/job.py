"""The job: one stream of events, whose every batch leaves all tables as if all events had come at once.

A batch is written in an order that makes a repeated run whole: which hours it computes follows from the events of the
batch, from the rows and from the holes, and these two are written last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from kafka_sidecar.pipeline.reconcile import coverage, intervals, states
from kafka_sidecar.pipeline.reconcile.events import hour_of, stored_schema, to_store
from kafka_sidecar.pipeline.reconcile.rows import ROWS, bucket_rows
from kafka_sidecar.pipeline.reconcile.sql import column
from kafka_sidecar.pipeline.reconcile.tables import Tables

TICKS = "batch_tick"


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Durations in ms, and the percentage below which there is an alert."""

    lateness: int
    clock_skew: int
    retention: int
    target: float


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch has done, for the line that is printed."""

    batch: int
    events: int
    hours: int
    states: dict[str, int]
    alerts: int


@dataclass(frozen=True, slots=True)
class Job:
    """Computes the tables of one folder."""

    spark: SparkSession
    tables: Tables
    limits: Limits
    clock: Callable[[], int] = wall_clock
    report: Callable[[Written], None] = field(default=lambda written: None)

    def start(self, events: DataFrame, **trigger: Any) -> Any:
        """Start the stream. ``trigger`` is Spark's; where it stopped last is in the folder of the tables.

        Raises:
            ValueError: the folder has tables, but not how far they were written.
        """
        if self.tables.exists("events") and not self.tables.exists("checkpoint"):
            where = self.tables.path("checkpoint")
            raise ValueError(f"{where} is missing, so batches would begin at 0 again; delete the folder above it, too")
        # A second source that always has rows: the clock goes on after the last sidecar has stopped.
        ticks = self.spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
        both = events.unionByName(ticks.select(functions.lit(TICKS).alias("kind")), allowMissingColumns=True)
        query = both.writeStream.foreachBatch(self.process).trigger(**trigger).queryName("reconcile")
        return query.option("checkpointLocation", self.tables.path("checkpoint")).start()

    def process(self, received: DataFrame, batch: int) -> None:
        """Store the events of a batch, and compute again what they change."""
        now = self.clock()
        self._store(received, batch)
        events = self.tables.read("events", stored_schema())
        reported = intervals.reported(events, now, self.limits.lateness)
        hours = self._hours(events, reported, batch, now)
        recent = events.where(column("hour").isin(hours) | (column("no_timestamp_count") > 0)).cache()
        groups = coverage.groups_of(events)
        cut = coverage.segments(recent, groups).cache()
        finals = self.tables.read_batches("finals", states.FINALS, batch).where(column("hour").isin(hours))
        computed = bucket_rows(recent, cut, groups).where(column("hour").isin(hours))
        rows = states.with_states(computed, reported, finals, now, self.limits.clock_skew).cache()
        self._write(rows, cut, finals, reported, hours, batch)
        for frame in (recent, cut, rows):
            frame.unpersist()

    def _store(self, received: DataFrame, batch: int) -> None:
        """The events that no earlier batch has, so that nothing after this counts any of them twice."""
        events = to_store(received.where(column("kind") != TICKS).drop(TICKS))
        earlier = self.tables.read_batches("events", stored_schema(), batch).select("audit_id", "hour")
        self.tables.write_batch("events", events.join(earlier, ["audit_id", "hour"], "left_anti"), batch)

    def _hours(self, events: DataFrame, reported: intervals.Reported, batch: int, now: int) -> list[str]:
        """The hours to compute: with new events, without rows or with rows that are not settled, touched by a hole that
        has come or gone."""
        counted = events.where("kind = 'counts'")
        rows = self.tables.read("reconcile", ROWS)
        new = counted.where(column("batch") == f"{batch:012}").select("hour")
        kept = hour_of(functions.lit(now - self.limits.retention))
        stored = counted.where(column("hour") >= kept).select("hour").distinct()
        settled = rows.groupBy("hour").agg(functions.min(column("state").isin(*states.SETTLED)).alias("settled"))
        open_hours = stored.join(settled.where("settled").select("hour"), "hour", "left_anti")
        before = self.tables.read("holes", intervals.HOLES)
        changed = before.exceptAll(reported.holes).unionByName(reported.holes.exceptAll(before))
        touching = intervals.is_touched(functions.coalesce("settles_at", functions.lit(now)), self.limits.clock_skew)
        touched = intervals.with_holes(rows, changed).where(touching).select("hour")
        # What this batch had published before it was killed, it publishes again.
        published = self.tables.read("finals", states.FINALS).where(column("batch") == f"{batch:012}").select("hour")
        found = new.union(open_hours).union(touched).union(published).distinct().collect()
        return sorted(row.hour for row in found)

    def _write(
        self,
        rows: DataFrame,
        cut: DataFrame,
        finals: DataFrame,
        reported: intervals.Reported,
        hours: list[str],
        batch: int,
    ) -> None:
        tables = self.tables
        tables.write_batch("finals", states.newly_final(rows, finals), batch)
        published = tables.read_batches("finals", states.FINALS, batch + 1).where(column("hour").isin(hours))
        found = states.alerts(published, rows, self.limits.target).cache()
        ranges = losses(rows, cut, hours).cache()
        tables.write_hours("losses", ranges, hours)
        tables.write_hours("alerts", found, hours)
        tables.write_hours("reconcile", rows, hours)
        tables.write_all("holes", reported.holes)
        counts = {row.state: row["count"] for row in rows.groupBy("state").count().collect()}
        stored = tables.read("events", stored_schema()).where(column("batch") == f"{batch:012}").count()
        self.report(Written(batch, stored, len(hours), counts, found.where("NOT is_resolved").count()))
        for frame in (found, ranges):
            frame.unpersist()


def losses(rows: DataFrame, cut: DataFrame, hours: list[str]) -> DataFrame:
    """Ranges that a group has not got, and those that it got though no sidecar saw them acknowledged."""
    delivered = rows.where("hop = 'deliver'").select("cluster", "topic", "group", "bucket_start", "state")
    keys = ["cluster", "topic", "group", "bucket_start"]
    finding = functions.when(column("state") == states.UNKNOWN, coverage.UNKNOWN).otherwise(coverage.LOST)
    missing = coverage.lost(cut).join(delivered, keys).withColumn("finding", finding)
    others = coverage.unaudited(cut).join(delivered, keys).withColumn("finding", functions.lit(coverage.UNAUDITED))
    parts = missing.unionByName(others).withColumn("hour", hour_of(column("bucket_start")))
    return coverage.joined(parts.where(column("hour").isin(hours)))
