"""A replay on the terminal: a progress bar while it runs, its report as tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from pyspark.sql import SparkSession
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kafka_sidecar.pipeline.replay.report import Place, Report
from kafka_sidecar.proxy.telemetry.readable import counted

T = TypeVar("T")
REFRESH_S = 0.5


def run_with_progress(spark: SparkSession, title: str, console: Console, work: Callable[[], T]) -> T:
    """What ``work`` returns; meanwhile a bar shows how many of Spark's tasks have ended."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    done = threading.Event()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        watcher = threading.Thread(target=_watch, args=(spark, progress, progress.add_task(title, total=None), done))
        watcher.start()
        try:
            return work()
        finally:
            done.set()
            watcher.join()


def _watch(spark: SparkSession, progress: Progress, task: int, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(REFRESH_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        if running:
            progress.update(
                task,  # type: ignore[arg-type]
                completed=sum(stage.numCompletedTasks for stage in running),
                total=sum(stage.numTasks for stage in running),
            )


def show(report: Report, by: str | None, console: Console) -> None:
    """Print the report."""
    for line in summary_lines(report):
        console.print(line, highlight=False, markup=False)
    if report.reasons:
        console.print(_reasons(report))
        console.print(_samples(report))
    if report.groups:
        console.print(_groups(report, by or ""))
    for note in report.notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def summary_lines(report: Report) -> list[str]:
    """The sums of each topic."""
    lines = []
    for one in report.topics:
        lines += [
            f"{one.topic}: {one.policy} ({one.source}, mode {one.mode})",
            (
                f"  {counted(one.records, 'record')} in {counted(one.batches, 'batch', 'batches')}"
                f" of {counted(one.partitions, 'partition')} validated"
            ),
            (
                f"  {counted(one.rejected_records, 'record')} rejected,"
                f" in {counted(one.rejected_batches, 'batch', 'batches')}"
                f" of {counted(one.records_of_rejected_batches, 'record')}"
                f"{_share(one.records_of_rejected_batches, one.records)}"
            ),
        ]
        if one.deleted:
            lines.append(f"  {counted(one.deleted, 'offset')} deleted before being read")
    records = sum(one.records for one in report.topics)
    rate = f", {records / report.seconds:,.0f} records/s" if records else ""
    return [*lines, f"{report.seconds:.1f} s{rate}"]


def describe_place(place: Place) -> str:
    """Where and when, in UTC.

    >>> describe_place(Place(3, 10, 12, 1_700_000_000_000, None))
    '3:12 2023-11-14 22:13:20'
    """
    at = place.batch_offset if place.offset is None else place.offset
    if place.timestamp is None or place.timestamp < 0:
        return f"{place.partition}:{at}"
    return f"{place.partition}:{at} {datetime.fromtimestamp(place.timestamp / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.2f} %)" if whole else ""


def _reasons(report: Report) -> Table:
    table = _table("Rejected", report, "policy", "reason")
    for name in ("code", "records", "batches"):
        table.add_column(name, justify="right")
    table.add_column("first and last, as partition:offset and UTC")
    for one in report.reasons:
        numbers = (str(one.error_code), f"{one.records:,}", f"{one.batches:,}")
        ends = f"{describe_place(one.first)}\n{describe_place(one.last)}"
        table.add_row(*_topic(report, one.topic), one.policy, one.reason, *numbers, ends)
    return table


def _samples(report: Report) -> Table:
    table = _table("Samples", report, "reason", "partition:offset", "message")
    for one in report.reasons:
        for place in one.samples:
            where = describe_place(place).split()[0]
            table.add_row(*_topic(report, one.topic), one.reason, where, escape(place.message or ""))
    return table


def _groups(report: Report, by: str) -> Table:
    table = _table(f"Most rejected, by {by}", report, escape(by))
    table.add_column("records", justify="right")
    for one in report.groups:
        table.add_row(*_topic(report, one.topic), escape(one.by), f"{one.records:,}")
    return table


def _table(title: str, report: Report, *columns: str) -> Table:
    """An empty table; its first column is the topic, if there are several."""
    return Table(*_topic(report, "topic"), *columns, title=title, title_justify="left", box=box.SIMPLE)


def _topic(report: Report, topic: str) -> tuple[str, ...]:
    return (topic,) if len(report.topics) > 1 else ()
