"""The whole job against known traffic, row by row."""

from __future__ import annotations

import random
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile import compaction
from kafka_sidecar.pipeline.reconcile.events import from_files
from kafka_sidecar.pipeline.reconcile.job import Job, Written
from kafka_sidecar.pipeline.reconcile.tables import Tables
from pipeline.conftest import in_several_partitions
from pipeline.reconcile import truth
from pipeline.reconcile.conftest import COMPACTED, LIMITS, LONG_AFTER, run, table, write_files
from pipeline.reconcile.emitted import disturb, emit
from pipeline.reconcile.traffic import IDS, Traffic, reported, traffic

EXACT = [
    "expected", "seen", "pending", "missing", "surplus", "failed", "rejected", "redelivered", "hidden", "aborted",
    "unconfirmed", "no_timestamp", "large", "segments", "settles_at", "state",
]  # fmt: skip
PROGRESS = ["first_delivered", "last_delivered", "last_committed", "uncommitted"]
REAL = ["completeness", *truth.SHARES]


def life(row: dict[str, Any]) -> str:
    """The topic as `Batch.topic` has it."""
    (number,) = (number for number, topic_id in IDS.items() if topic_id == row["topic_id"])
    return f"{row['topic']}/{number}" if number else str(row["topic"])


def by_key(rows: list[dict[str, Any]]) -> dict[truth.Key, dict[str, Any]]:
    keyed = {(life(row), row["bucket_start"], row["hop"], row["group"]): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def compare(found: dict[truth.Key, dict[str, Any]], expected: dict[truth.Key, dict[str, Any]], corrected: bool) -> None:
    assert sorted(found, key=str) == sorted(expected, key=str)
    for key, row in expected.items():
        got = dict(found[key])
        if corrected and got["state"] == "CORRECTED":
            got["state"] = "FINAL"
        assert {name: got[name] for name in EXACT} == {name: row[name] for name in EXACT}, key
        assert {name: got[name] for name in REAL} == pytest.approx({name: row[name] for name in REAL}), key


@pytest.fixture(scope="module")
def one_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Traffic, Path]:
    """In several partitions, which would keep rows apart that belong together."""
    folder, made = tmp_path_factory.mktemp("one_run"), traffic(seed=2)
    write_files(folder / "in", disturb(emit(made), seed=1), 1)
    with in_several_partitions(spark):
        run(spark, folder / "in", folder / "out")
    return made, folder / "out"


def test_a_table_of_one_run_is_the_truth(spark: SparkSession, one_run: tuple[Traffic, Path]) -> None:
    made, root = one_run
    expected = truth.rows(made, LIMITS.lateness, LIMITS.clock_skew)
    found = by_key(table(spark, root, "reconcile"))
    compare(found, expected, corrected=False)
    assert {row["state"] for row in expected.values()} == {"OPEN", "UNKNOWN", "FINAL", "COMPACTED"}
    assert {"orders", "orders/2"} < {topic for (topic, _, _, _), row in expected.items() if row["state"] == "FINAL"}
    assert min(row["large"] for row in expected.values()) == 0 < max(row["large"] for row in expected.values())
    assert {hop for _, _, hop, _ in expected} == {"produce", "deliver"}
    groups = {
        (life(row), row["partition"], row["group"]): {name: row[name] for name in PROGRESS}
        for row in table(spark, root, "groups")
    }
    assert groups == truth.groups(made)


def lost_offsets(rows: list[dict[str, Any]], finding: str) -> set[tuple[str, int, str, int]]:
    return {
        (life(row), row["partition"], row["group"], offset)
        for row in rows
        if row["finding"] == finding
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    }


def check_losses(made: Traffic, found: list[dict[str, Any]], expected: dict[truth.Key, dict[str, Any]]) -> None:
    """Lost is exactly what was planted, except where nothing is known."""
    named = {
        state: {
            (topic, partition, group, offset)
            for (topic, _, _, group), row in expected.items()
            if row["state"] == state and group
            for partition, offset in row["lost"]
        }
        for state in ("OPEN", "FINAL", "UNKNOWN", "COMPACTED")
    }
    assert lost_offsets(found, "lost") == named["FINAL"] | named["OPEN"]
    assert lost_offsets(found, "unknown") == named["UNKNOWN"]
    assert lost_offsets(found, "compacted") == named["COMPACTED"]
    assert named["COMPACTED"]
    assert named["FINAL"]
    assert named["FINAL"] <= made.lost


def test_ranges_of_lost_records_are_those_that_were_planted(spark: SparkSession, one_run: tuple[Traffic, Path]) -> None:
    made, root = one_run
    losses = table(spark, root, "losses")
    check_losses(made, losses, truth.rows(made, LIMITS.lateness, LIMITS.clock_skew))
    read = {
        (one.batch.topic, one.batch.partition, one.group or "", offset)
        for one in reported(made)
        if one.tier == "fetch_delivered"
        for offset in one.batch.offsets
    }
    assert made.unaudited & read
    assert lost_offsets(losses, "unaudited") | lost_offsets(losses, "unreported") >= made.unaudited & read
    assert {row["state"] for row in losses if row["finding"] == "unreported"} == {"UNKNOWN"}
    assert "UNKNOWN" not in {row["state"] for row in losses if row["finding"] == "unaudited"}


@pytest.mark.parametrize("seed", [5])
def test_a_stream_with_restarts_at_random_points_has_the_same_table(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MAX_FOLDERS", 3)
    dice = random.Random(seed)
    made = traffic(seed)
    events = disturb(emit(made), seed)
    cuts = sorted(dice.sample(range(1, len(events)), 3))
    clock = 0
    for first, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        write_files(tmp_path / "in", events[first:end], 2 if first == cuts[0] else 1)
        clock = max(clock, *(event["emitted_at"] for event in events[first:end])) + 1000
        run(spark, tmp_path / "in", tmp_path / "out", lambda now=clock: now, files=1)  # type: ignore[misc]
    run(spark, tmp_path / "in", tmp_path / "out")  # nothing new, but much later
    expected = truth.rows(made, LIMITS.lateness, LIMITS.clock_skew)
    compare(by_key(table(spark, tmp_path / "out", "reconcile")), expected, corrected=True)
    check_losses(made, table(spark, tmp_path / "out", "losses"), expected)


def test_a_job_that_watches_takes_what_comes_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    made = traffic(seed=6, minutes=12)
    events = emit(made)
    written: Queue[Written] = Queue()
    write_files(tmp_path / "in", events[:100], 1)
    job = Job(spark, Tables(spark, str(tmp_path / "out")), LIMITS, lambda: LONG_AFTER, written.put, COMPACTED.of)
    query = job.start(from_files(spark, str(tmp_path / "in"), "json", 1), processingTime="0 seconds")
    assert written.get(timeout=300).events == 100
    write_files(tmp_path / "in", events[100:], 1)
    while written.get(timeout=300).events == 0:  # only the clock has gone on
        pass
    query.stop()  # wherever it is
    run(spark, tmp_path / "in", tmp_path / "out")
    expected = truth.rows(made, LIMITS.lateness, LIMITS.clock_skew)
    compare(by_key(table(spark, tmp_path / "out", "reconcile")), expected, corrected=True)
