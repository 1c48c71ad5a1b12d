"""A driver that dies at any of its writes, and is run again, leaves the same tables."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from support.pages import ROOT

from kafka_sidecar.pipeline.reconcile import compaction
from kafka_sidecar.pipeline.reconcile.events import stored_schema
from kafka_sidecar.pipeline.reconcile.folders import COMPACTED
from kafka_sidecar.pipeline.reconcile.tables import Tables
from pipeline.reconcile.conftest import LONG_AFTER, run, table, write_files
from pipeline.reconcile.emitted import Event, disturb, emit
from pipeline.reconcile.made import counts, interval, minute
from pipeline.reconcile.moments import MOMENTS, Moment, replacements, uncommitted
from pipeline.reconcile.traffic import traffic

TABLES = ("reconcile", "losses", "alerts", "holes", "groups")


@dataclass(frozen=True)
class Runs:
    """A folder of events, and the tables of runs over them."""

    source: Path
    root: Path  # after all of them
    died: dict[Moment, Path]  # after the last of them, had it died at this moment
    ids: list[str]  # of all events
    contents: dict[str, list[str]]


def contents(spark: SparkSession, root: Path) -> dict[str, list[str]]:
    return {name: sorted(map(repr, table(spark, root, name))) for name in TABLES}


def ids(spark: SparkSession, root: Path) -> list[str]:
    """Of the stored events; each is stored once."""
    tables = Tables(spark, str(root))
    events = tables.read_folders("events", stored_schema(), tables.folders("events"))
    return sorted(row.audit_id for row in events.select("audit_id").collect())


def batches(root: Path) -> set[str]:
    """Those that Spark has noted as ended."""
    return {path.name for path in (root / "checkpoint" / "commits").iterdir()}


def late() -> list[Event]:
    """A sidecar that reports for the first time counts records of a bucket that is final already."""
    begun = {"epoch": 18, "interval_events": 1}
    attempts = counts("late-1", 0, 0, "produce_attempt", [], count=7, bucket_start=minute(2), **begun)
    return [attempts, interval("late-1", 0, 1, epoch=18, is_closing=True)]


@contextmanager
def stopped_driver() -> Iterator[None]:
    """Stop the JVM with SIGSTOP. Its files are those that SIGKILL would leave: neither lets it write its buffers."""
    java = SparkContext._gateway.proc.pid
    os.kill(java, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(java, signal.SIGCONT)


def copy_at_moments(root: Path, folder: Path, died: dict[Moment, Path]) -> Callable[[Moment], None]:
    """A function that copies the tables the first time that each moment comes."""

    def copy(moment: Moment) -> None:
        if moment in MOMENTS and moment not in died:
            died[moment] = folder / "-".join(moment)
            with stopped_driver():
                shutil.copytree(root, died[moment])

    return copy


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("kills")
    events = disturb(emit(traffic(seed=4, minutes=20)), seed=4)
    first, second = events[: len(events) * 2 // 3], [*events[len(events) * 2 // 3 :], *late()]
    source, root, died = folder / "in", folder / "whole", dict[Moment, Path]()
    now = max(event["emitted_at"] for event in first) + 1000
    write_files(source, first, 2)
    run(spark, source, root, lambda: now, files=1)  # with final rows that the rest corrects
    write_files(source, second, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MAX_FOLDERS", 2)
        for name, method in replacements(copy_at_moments(root, folder, died)).items():
            patch.setattr(Tables, name, method)
        run(spark, source, root)
        patch.undo()
        patch.setattr(compaction, "MAX_FOLDERS", 2)  # for the tests' runs, too
        every = sorted({event["audit_id"] for event in [*first, *second]})
        yield Runs(source, root, died, every, contents(spark, root))


def test_the_run_that_goes_on_has_all_states_and_merges(spark: SparkSession, runs: Runs) -> None:
    assert {row["state"] for row in table(spark, runs.root, "reconcile")} >= {"FINAL", "CORRECTED", "UNKNOWN"}
    assert ids(spark, runs.root) == runs.ids
    assert any(one.kind == COMPACTED for one in Tables(spark, str(runs.root)).folders("events"))


# A run for each; `make spark` has the test after this one, in which a driver dies twice.
@pytest.mark.matrix
@pytest.mark.parametrize("moment", MOMENTS, ids="-".join)
def test_a_driver_that_dies_in_or_after_a_write_and_is_run_again_leaves_the_same_tables(
    spark: SparkSession, runs: Runs, moment: Moment, tmp_path: Path
) -> None:
    root, (write, when) = tmp_path / "died", moment
    shutil.copytree(runs.died[moment], root)
    assert batches(root) < batches(runs.root)
    assert bool(uncommitted(root / write.removeprefix("merged "))) is (when == "during")
    run(spark, runs.source, root)
    assert contents(spark, root) == runs.contents
    assert ids(spark, root) == runs.ids


def test_a_driver_that_died_and_is_killed_when_it_is_run_again_leaves_the_same_tables(
    spark: SparkSession, runs: Runs, tmp_path: Path
) -> None:
    root = tmp_path / "killed"
    shutil.copytree(runs.died["finals", "during"], root)
    command = [sys.executable, "-m", "pipeline.reconcile.killed", str(runs.source), str(root), str(LONG_AFTER)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    # Not in the folder above, whose own `pipeline` would be found first.
    done = subprocess.run(
        [*command, "reconcile", "during"],
        cwd=ROOT / "tests",
        env=environment,
        start_new_session=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    run(spark, runs.source, root)
    assert contents(spark, root) == runs.contents
    assert ids(spark, root) == runs.ids


def test_tables_without_their_progress_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out" / "events").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"checkpoint is missing, .*; delete the folder above it, too"):
        run(spark, tmp_path / "in", tmp_path / "out")
