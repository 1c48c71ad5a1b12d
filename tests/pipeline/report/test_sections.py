"""The sections, compared with the truth about the traffic."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.report.sections import DAY, HOUR, MAX_POINTS, MINUTE, Report, compute, step_of
from pipeline.reconcile import truth
from pipeline.reconcile.conftest import LIMITS
from pipeline.reconcile.traffic import START, Traffic


def expected(made: Traffic) -> dict[truth.Key, truth.Row]:
    return truth.rows(made, LIMITS.lateness, LIMITS.clock_skew)


def name_of(life: str) -> str:
    """A topic that was created again is one of the report: orders/2 is orders."""
    return life.partition("/")[0]


def test_topics_have_the_sums_of_their_known_buckets(report: Report, made: Traffic) -> None:
    rows = expected(made)
    for found in report.sections["topics"].to_pylist():
        mine = [
            row
            for (topic, _, hop, group), row in rows.items()
            if (name_of(topic), hop, group) == (found["topic"], found["hop"], found["group"])
        ]
        known = [row for row in mine if row["state"] == "FINAL"]
        due = sum(row["expected"] - row["pending"] for row in known)
        missing = sum(row["missing"] for row in known)
        assert (found["due"], found["missing"]) == (due, missing)
        assert found["completeness"] == (None if due == 0 else pytest.approx((due - missing) / due))
        assert found["seen"] == sum(row["seen"] for row in mine)
        assert found["unknown"] == sum(row["state"] == "UNKNOWN" for row in mine)


def test_the_worst_bucket_is_first_and_its_offsets_are_named(report: Report, made: Traffic) -> None:
    known = [row for row in expected(made).values() if row["state"] not in ("UNKNOWN", "COMPACTED")]
    worst = report.sections["worst"].to_pylist()[0]
    assert worst["missing"] == max(row["missing"] for row in known)
    lost = {
        (name_of(topic), partition, group, offset)
        for (topic, _, hop, group), row in expected(made).items()
        if hop == "deliver" and row["state"] != "UNKNOWN"
        for partition, offset in row["lost"]
    }
    named = {
        (loss["topic"], loss["partition"], loss["group"], offset)
        for loss in report.sections["losses"].to_pylist()
        if loss["finding"] == "lost"
        for offset in range(loss["first_offset"], loss["last_offset"] + 1)
    }
    assert named
    assert named <= lost


def test_rejections_are_counted_by_what_became_of_them(report: Report, made: Traffic) -> None:
    rows = [(key, row) for key, row in expected(made).items() if key[2] == "produce"]
    for found in report.sections["rejections"].to_pylist():
        mine = [row for (topic, *_), row in rows if topic == found["topic"]]
        assert found["rejected"] == sum(row["rejected"] for row in mine)
        assert found["rejected"] + found["failed"] == sum(row["failed"] for row in mine)
        assert found["unanswered"] == sum(row["missing"] for row in mine)


def test_a_report_on_a_later_period_has_only_its_buckets(spark: SparkSession, tables: Path) -> None:
    since = START + 10 * MINUTE
    later = compute(spark, str(tables), since)
    assert later.begin >= since
    assert all(row["bucket_start"] >= since for row in later.sections["worst"].to_pylist())
    assert all(row["at"] >= since for row in later.sections["latency"].to_pylist())


def test_what_a_replay_rejected_is_a_section(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(
        '{"topics": [],\n "reasons": [{"topic": "orders", "policy": "json", "reason": "syntax", "error_code": 87,\n'
        '  "records": 3, "batches": 2, "first": {"partition": 0}}]}'
    )
    found = compute(spark, str(tables), 0, str(file)).sections["replay"].to_pylist()
    row = {"topic": "orders", "policy": "json", "reason": "syntax", "error_code": 87, "records": 3, "batches": 2}
    assert found == [row]


def test_without_tables_all_sections_are_empty(spark: SparkSession, tmp_path: Path) -> None:
    empty = compute(spark, str(tmp_path / "none"), 0)
    assert (empty.begin, empty.end) == (0, 0)
    assert {table.num_rows for table in empty.sections.values()} == {0}


@pytest.mark.parametrize(
    ("length", "bucket", "step"),
    [(HOUR, MINUTE, MINUTE), (HOUR, 20, 5 * MINUTE // 5), (7 * DAY, 10 * MINUTE, HOUR), (90 * DAY, MINUTE, 12 * HOUR)],
)
def test_a_step_is_a_bucket_or_a_round_time(length: int, bucket: int, step: int) -> None:
    assert step_of(0, length, bucket) == step
    assert length / step <= MAX_POINTS
