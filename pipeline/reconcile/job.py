"""The job: one stream of events, whose every batch leaves all tables as if all events had come at once.

A batch is written in an order that makes a repeated run whole: which hours it computes follows from the events of the
batch, from the rows and from the holes, and these two are written last. What is used more than once is computed once,
with `localCheckpoint`: to plan again what leads to it, as with `cache`, takes longer than most batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, functions

from kafka_sidecar.pipeline.reconcile import coverage, intervals, states
from kafka_sidecar.pipeline.reconcile.compacted import ClusterTopic
from kafka_sidecar.pipeline.reconcile.compaction import Hour, compact, found_hours, parts
from kafka_sidecar.pipeline.reconcile.events import hour_of, ids_of, once, stored_schema, to_valid
from kafka_sidecar.pipeline.reconcile.history import history_of, with_ids
from kafka_sidecar.pipeline.reconcile.hops import GROUPED, PRODUCE
from kafka_sidecar.pipeline.reconcile.rows import ROWS, bucket_rows
from kafka_sidecar.pipeline.reconcile.sql import BUCKET, column, computed, fit, is_small, union
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.reconcile.touches import touches_of, with_touched

TICKS = "batch_tick"
WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
MAX_WRITERS = 64  # files that a task writes at once, one for each hour; for more hours it sorts its rows


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
    compacted: Callable[[Collection[ClusterTopic]], Collection[ClusterTopic]] = field(default=lambda topics: ())
    """Which of these topics are compacted."""

    def start(self, events: DataFrame, **trigger: Any) -> Any:
        """Start the stream. ``trigger`` is Spark's; where it stopped last is in the folder of the tables.

        Raises:
            ValueError: the folder has tables, but not how far they were written.
        """
        if self.tables.exists("events") and not self.tables.exists("checkpoint"):
            where = self.tables.path("checkpoint")
            raise ValueError(f"{where} is missing, so batches would begin at 0 again; delete the folder above it, too")
        fit(self.spark)
        if not self.spark.sparkContext.getConf().contains(WRITERS):
            self.spark.conf.set(WRITERS, MAX_WRITERS)
        # A second source that always has rows: the clock goes on after the last sidecar has stopped.
        ticks = self.spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
        both = events.unionByName(ticks.select(functions.lit(TICKS).alias("kind")), allowMissingColumns=True)
        query = both.writeStream.foreachBatch(self.process).trigger(**trigger).queryName("reconcile")
        return query.option("checkpointLocation", self.tables.path("checkpoint")).start()

    def process(self, received: DataFrame, batch: int) -> None:
        """Store the events of a batch, and compute again what they change."""
        now = self.clock()
        self._store(received, batch)
        fit(self.spark)
        stored = found_hours(self.tables)
        history = history_of(parts(self.tables, stored.values())).computed()
        self.tables.describe("what sidecars have reported")
        reported = intervals.reported(history, now, self.limits.lateness)
        self.tables.describe("hours to compute")
        counted = {row.hour: row for row in history.hours.collect()}
        hours = self._hours(stored, {hour for hour, row in counted.items() if row.counted}, reported, batch, now)
        self.tables.describe("compare ranges of offsets")
        untimed = {hour for hour, row in counted.items() if row.untimed}
        recent = with_ids(self._recent(stored, hours, untimed), history.lives, "emitted_at")
        groups = coverage.groups_of(history.marks)
        cut = computed(coverage.segments(recent, groups))
        finals = self._finals(hours, batch)
        self.tables.describe("compute rows")
        found = bucket_rows(recent, cut, groups).where(column("hour").isin(hours))
        read = history.marks.select("cluster", "topic").distinct().collect()
        compacted = self.compacted([(row.cluster, row.topic) for row in read])
        rows = computed(states.with_states(found, reported, finals, now, self.limits.clock_skew, compacted))
        self.tables.write_all("groups", coverage.progress(groups))
        self.tables.describe("name ranges of offsets")
        ranges = computed(losses(rows, cut, coverage.copies(recent), hours))
        written = self._write(rows, ranges, finals, reported, hours, batch)
        fit(self.spark)
        last_at = {hour: row.at for hour, row in counted.items()}
        compact(self.tables, batch, hours, last_at, now - self.limits.retention)
        self.report(written)

    def _store(self, received: DataFrame, batch: int) -> None:
        """The events that no earlier batch has, so that nothing after this counts any of them twice."""
        self.tables.describe("hours of new events")
        valid = to_valid(received.where(column("kind") != TICKS).drop(TICKS))
        ids = ids_of(valid)
        if not ids.hours:
            return
        events = once(valid, ids)
        folders = [one for one in self.tables.folders("events", batch) if one.hour in ids.hours]
        if folders:
            earlier = self.tables.read_folders("events", stored_schema(), folders).select("audit_id", "hour")
            events = events.join(earlier, ["audit_id", "hour"], "left_anti")
        self.tables.write_batch("events", events, batch)

    def _hours(
        self, stored: Mapping[str, Hour], counted: Collection[str], reported: intervals.Reported, batch: int, now: int
    ) -> list[str]:
        """The hours to compute: with new events, without rows or with rows that are not settled, touched by a hole that
        has come or gone. Not those whose events have been deleted."""
        there = [hour for hour in counted if not stored[hour].is_expired]
        new = {hour for hour in there if any(one.batch == batch for one in stored[hour].folders["events"])}
        rows = self.tables.read("reconcile", ROWS).where(column("hour").isin(there))
        settled = rows.groupBy("hour").agg(functions.min(column("state").isin(*states.SETTLED)).alias("settled"))
        open_hours = set(there) - {row.hour for row in settled.where("settled").collect()}
        settles = functions.coalesce("settles_at", functions.lit(now))
        touches = touches_of(changed(self.tables.read("holes", intervals.HOLES), reported.holes))
        known = with_touched(rows, touches, settles, states.is_balanced(), self.limits.clock_skew)
        touched = known.where("is_touched").select("hour").distinct()
        return sorted(new | open_hours | {row.hour for row in touched.collect()})

    def _recent(self, stored: Mapping[str, Hour], hours: Collection[str], untimed: Collection[str]) -> DataFrame:
        """The events of these hours. What has no timestamp is counted by the time of arrival, so it may be anywhere."""
        wanted = {*hours, *untimed}
        folders = [one for hour in wanted for one in stored[hour].folders["events"]]
        fit(self.spark, self.tables.size("events", folders))
        events = self.tables.read_folders("events", stored_schema(), folders)
        recent = events.where(column("hour").isin(hours) | (column("no_timestamp_count") > 0))
        return computed(recent) if is_small(self.spark) else recent

    def _finals(self, hours: Collection[str], before: int) -> DataFrame:
        """What earlier batches have published of these hours."""
        folders = [one for one in self.tables.folders("finals", before) if one.hour in hours]
        return self.tables.read_folders("finals", states.FINALS, folders)

    def _write(
        self,
        rows: DataFrame,
        ranges: DataFrame,
        finals: DataFrame,
        reported: intervals.Reported,
        hours: list[str],
        batch: int,
    ) -> Written:
        tables = self.tables
        tables.write_batch("finals", states.newly_final(rows, finals, batch), batch, hours)
        published = self._finals(hours, batch + 1)
        found = computed(states.alerts(published, rows, self.limits.target))
        tables.write_hours("losses", ranges, hours)
        tables.write_hours("alerts", found, hours)
        tables.write_hours("reconcile", rows, hours)
        tables.write_all("holes", reported.holes)
        tables.describe("count what was written")
        counts = {row.state: row["count"] for row in rows.groupBy("state").count().collect()}
        new = [one for one in tables.folders("events") if one.batch == batch]
        stored = tables.read_folders("events", stored_schema(), new).count()
        return Written(batch, stored, len(hours), counts, found.where("NOT is_resolved").count())


def changed(before: DataFrame, after: DataFrame) -> list[Row]:
    """The rows of two small tables that are in one of them only."""
    one, other = ({repr(row): row for row in table.collect()} for table in (before, after))
    return [row for name, row in (one | other).items() if (name in one) != (name in other)]


def losses(rows: DataFrame, cut: DataFrame, copies: DataFrame, hours: list[str]) -> DataFrame:
    """Ranges that a group has not got, those that it got though no sidecar has reported them acknowledged, and later
    copies of what producers have sent again."""
    produced = rows.where(column("hop") == PRODUCE).select(*BUCKET, "state")
    delivered = rows.where(column("hop").isin(*GROUPED)).select(*BUCKET, "group", "state")
    keys = [*BUCKET, "group"]

    def finding(unknown: str, known: Column | str) -> Column:
        return functions.when(column("state") == states.UNKNOWN, unknown).otherwise(known).alias("finding")

    lost = functions.when(column("state") == states.COMPACTED, coverage.COMPACTED).otherwise(coverage.LOST)
    missing = coverage.lost(cut).join(delivered, keys).select("*", finding(coverage.UNKNOWN, lost))
    others = coverage.unaudited(cut).join(delivered, keys)
    others = others.select("*", finding(coverage.UNREPORTED, coverage.UNAUDITED))
    again = copies.join(produced, BUCKET)
    parts = union(missing, others, again).withColumn("hour", hour_of(column("bucket_start")))
    return coverage.joined(parts.where(column("hour").isin(hours)))
