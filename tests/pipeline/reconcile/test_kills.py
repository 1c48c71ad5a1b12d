"""A driver that is killed at any of its writes, and run again, leaves the same tables."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pages import ROOT

from pipeline.reconcile.conftest import LONG_AFTER, run, table, write_files
from pipeline.reconcile.emitted import disturb, emit
from pipeline.reconcile.killed import KILLS
from pipeline.reconcile.traffic import traffic

TABLES = ("reconcile", "losses", "alerts", "holes")


def contents(spark: SparkSession, root: Path) -> dict[str, list[str]]:
    return {name: sorted(map(repr, table(spark, root, name))) for name in TABLES}


def run_and_kill(source: Path, root: Path, now: int, write: str, moment: str) -> int:
    command = [sys.executable, "-m", "pipeline.reconcile.killed", str(source), str(root), str(now), write, moment]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    # Not in the folder above, whose own `pipeline` would be found first.
    done = subprocess.run(
        command, cwd=ROOT / "tests", env=environment, start_new_session=True, capture_output=True, timeout=300
    )
    return done.returncode


def test_a_driver_that_is_killed_at_each_write_leaves_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    events = disturb(emit(traffic(seed=4, minutes=20)), seed=4)
    first, second = events[: len(events) * 2 // 3], events[len(events) * 2 // 3 :]
    source, root, whole = tmp_path / "in", tmp_path / "killed", tmp_path / "whole"
    now = max(event["emitted_at"] for event in first) + 1000
    write_files(source, first, 1)
    run(spark, source, root, lambda: now)
    shutil.copytree(root, whole)  # a batch in, with final rows that the next one corrects
    write_files(source, second, 1)
    for write, moment in KILLS:
        assert run_and_kill(source, root, LONG_AFTER, write, moment) == -signal.SIGKILL, (write, moment)
    run(spark, source, root)
    run(spark, source, whole)
    assert contents(spark, root) == contents(spark, whole)
    states = {row["state"] for row in table(spark, root, "reconcile")}
    assert states >= {"FINAL", "CORRECTED", "UNKNOWN"}


def test_tables_without_their_progress_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out" / "events").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"checkpoint is missing, .*; delete the folder above it, too"):
        run(spark, tmp_path / "in", tmp_path / "out")
