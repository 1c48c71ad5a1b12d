"""Runs that are killed at their writes, one after the other, compared with runs that are not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from support.pages import ROOT

from kafka_sidecar.pipeline.reconcile.events import stored_schema
from kafka_sidecar.pipeline.reconcile.tables import Tables
from pipeline.reconcile.conftest import LONG_AFTER, run, table, write_files
from pipeline.reconcile.emitted import Event, disturb, emit
from pipeline.reconcile.made import counts, interval, minute
from pipeline.reconcile.traffic import traffic

Kill = tuple[str, str]  # the write, and whether it is killed during or after it
TABLES = ("reconcile", "losses", "alerts", "holes", "groups")


def contents(spark: SparkSession, root: Path) -> dict[str, list[str]]:
    return {name: sorted(map(repr, table(spark, root, name))) for name in TABLES}


def ids(spark: SparkSession, root: Path) -> list[str]:
    """Of the stored events; each is stored once."""
    tables = Tables(spark, str(root))
    events = tables.read_folders("events", stored_schema(), tables.folders("events"))
    return sorted(row.audit_id for row in events.select("audit_id").collect())


def run_and_kill(source: Path, root: Path, now: int, write: str, moment: str) -> int:
    command = [sys.executable, "-m", "pipeline.reconcile.killed", str(source), str(root), str(now), write, moment]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    # Not in the folder above, whose own `pipeline` would be found first.
    done = subprocess.run(
        command, cwd=ROOT / "tests", env=environment, start_new_session=True, capture_output=True, timeout=300
    )
    return done.returncode


def late() -> list[Event]:
    """A sidecar that reports for the first time counts records of a bucket that is final already."""
    begun = {"epoch": 18, "interval_events": 1}
    attempts = counts("late-1", 0, 0, "produce_attempt", [], count=7, bucket_start=minute(2), **begun)
    return [attempts, interval("late-1", 0, 1, epoch=18, is_closing=True)]


def check_kills(spark: SparkSession, folder: Path, kills: Sequence[Kill]) -> Tables:
    """Kill runs at these writes, then let one end: all tables are those of a run that was never killed."""
    events = disturb(emit(traffic(seed=4, minutes=20)), seed=4)
    first, second = events[: len(events) * 2 // 3], [*events[len(events) * 2 // 3 :], *late()]
    source, root, whole = folder / "in", folder / "killed", folder / "whole"
    now = max(event["emitted_at"] for event in first) + 1000
    write_files(source, first, 2)
    run(spark, source, root, lambda: now, files=1)
    shutil.copytree(root, whole)  # with final rows that the next batch corrects, and folders that it merges
    write_files(source, second, 1)
    for write, moment in kills:
        assert run_and_kill(source, root, LONG_AFTER, write, moment) == -signal.SIGKILL, (write, moment)
    run(spark, source, root)
    run(spark, source, whole)
    assert contents(spark, root) == contents(spark, whole)
    states = {row["state"] for row in table(spark, root, "reconcile")}
    assert states >= {"FINAL", "CORRECTED", "UNKNOWN"}, states
    assert ids(spark, root) == ids(spark, whole) == sorted({event["audit_id"] for event in [*first, *second]})
    return Tables(spark, str(root))
