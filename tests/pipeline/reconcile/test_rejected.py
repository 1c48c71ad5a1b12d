"""What was sent = what is stored + dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from kafka_sidecar.pipeline.dead_letters.source import SCHEMA, Row
from kafka_sidecar.pipeline.reconcile.rejected import Hole, Sums, compare, sums_lines, write_table
from kafka_sidecar.pipeline.reconcile.rows import ROWS
from kafka_sidecar.pipeline.reconcile.sql import empty
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.report.page import render
from kafka_sidecar.pipeline.report.sections import compute
from kafka_sidecar.proxy.security.client_settings import REPLAY_CLIENT_ID
from pipeline.reconcile.conftest import run, write_files
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, frame, interval, minute


def produced(accepted: int, rejected: int, at: int = 0, **values: Any) -> list[Event]:
    """The events of one client that sent so many records."""
    common = {"bucket_start": minute(at), **values}
    events = [counts("e", 0, 0, "produce_attempt", [], count=accepted + rejected, **common)]
    if accepted:
        events.append(counts("e", 0, 1, "produce_ack", [[0, accepted - 1]], **common))
    if rejected:
        one = counts("e", 0, 2, "produce_ack", [], count=rejected, reject_count=rejected, **common)
        events.append(one | {"type": "FAILURE"})
    return events


def letters(spark: SparkSession, *found: Row) -> DataFrame:
    return spark.createDataFrame(list(found), SCHEMA)


def letter(n: int, topic: str = "orders", mode: str = "enforce", at: int = 0, batch: str = "r") -> Row:
    return Row("dlq", 0, n, minute(at), topic, "json", "not_json", mode, "app", batch, n, minute(at) + 5)


def of(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.orderBy("topic", "hour").collect()]


def picked(row: dict[str, Any], names: str) -> list[int]:
    return [row[name] for name in names.split()]


def test_what_was_rejected_is_in_the_dead_letter_topic_or_lost(spark: SparkSession) -> None:
    events = frame(spark, *produced(10, 5))
    found = of(compare(events, letters(spark, letter(0), letter(1), letter(2)), empty(spark, ROWS)))
    (row,) = found
    assert picked(row, "sent stored rejected other dead_letters lost surplus doubled") == [15, 10, 5, 0, 3, 2, 0, 0]


def test_a_record_with_two_letters_counts_once_and_one_that_is_stored_does_not_count(spark: SparkSession) -> None:
    events = frame(spark, *produced(10, 2))
    twice = letters(
        spark, letter(0), letter(0), letter(1), letter(2, mode="shadow"), letter(0, batch="r2", mode="shadow")
    )
    (row,) = of(compare(events, twice, empty(spark, ROWS)))
    assert picked(row, "rejected dead_letters lost surplus doubled") == [2, 2, 0, 0, 1]


def test_what_is_replayed_is_counted_apart(spark: SparkSession) -> None:
    replayed = produced(1, 1, client_id=REPLAY_CLIENT_ID)
    for index, event in enumerate(replayed):
        event |= {"audit_id": f"again-{index}"}
    events = frame(spark, *produced(10, 2), *replayed)
    (row,) = of(compare(events, letters(spark, letter(0), letter(1)), empty(spark, ROWS)))
    assert picked(row, "sent stored rejected dead_letters lost replayed") == [12, 10, 2, 2, 0, 1]


def test_letters_without_events_are_surplus_and_those_of_deleted_hours_nothing(spark: SparkSession) -> None:
    events = frame(spark, *produced(10, 1))
    some = letters(spark, letter(0), letter(1), letter(9, at=-600, batch="old"))
    (row,) = of(compare(events, some, empty(spark, ROWS)))
    assert picked(row, "rejected dead_letters lost surplus") == [1, 2, 0, 1]


def test_letters_of_a_time_that_was_not_reported_may_hide_as_many_that_are_lost(spark: SparkSession) -> None:
    events = frame(spark, *produced(10, 5))
    hole = SparkRow(cause="unfinished", from_ms=minute(0), to_ms=minute(0) + 10)
    later = SparkRow(cause="unfinished", from_ms=minute(1), to_ms=minute(2))
    some = letters(spark, *(letter(n) for n in range(4)))
    (row,) = of(compare(events, some, empty(spark, ROWS), holes=[hole, later]))
    assert picked(row, "rejected dead_letters lost lost_at_most") == [5, 4, 1, 5]
    (row,) = of(compare(events, some, empty(spark, ROWS), holes=[later]))
    assert picked(row, "rejected dead_letters lost lost_at_most") == [5, 4, 1, 1]


def test_what_is_not_known_is_said_and_no_alarm() -> None:
    holes = (Hole("front-1", 1_790_000_000_000, 1_790_000_004_000, "unfinished"),)
    known = Sums("orders", 15, 10, 5, 7, 0, 2, 0, 0, 3, False, holes)
    line, about, hole = sums_lines([known])
    assert line.startswith("orders: 15 sent = 10 stored + 5 rejected; 7 dead letters, 0 to 3 lost, 0 replayed; ")
    assert line.endswith("; 2 dead letters more than sidecars have reported")
    assert about == "orders: not in these numbers is what was counted and never reported, stored and rejected:"
    assert hole.startswith("  2026-09-21T14:13:20.000Z to 2026-09-21T14:13:24.000Z, front-1: ")
    assert hole.endswith("it ended without its last report, as after a kill")
    many = Sums("orders", 15, 10, 5, 5, 0, 0, 1, 0, 0, True, holes * 25)
    lines = list(sums_lines([many]))
    assert lines[0].endswith("0 lost, 0 replayed; 1 dead letters are there twice; some hours are UNKNOWN")
    assert (len(lines), lines[-1]) == (23, "  and 5 more, in the table of holes")


def test_a_topic_without_a_letter_is_compared_if_it_is_named(spark: SparkSession) -> None:
    events = frame(spark, *produced(10, 4))
    none = letters(spark).limit(0)
    assert of(compare(events, none, empty(spark, ROWS))) == []
    (row,) = of(compare(events, none, empty(spark, ROWS), ["orders"]))
    assert picked(row, "rejected dead_letters lost") == [4, 0, 4]


def test_the_table_is_written_and_shown_in_the_report(spark: SparkSession, tmp_path: Path) -> None:
    made = produced(10, 5)
    closing: Sequence[Event] = [one | {"interval_events": len(made)} for one in made]
    write_files(tmp_path / "events", [*closing, interval("e", 0, len(made), is_closing=True)], 1)
    run(spark, tmp_path / "events", tmp_path / "tables")
    (sums,) = write_table(Tables(spark, str(tmp_path / "tables")), letters(spark, letter(0), letter(1)))
    assert list(sums_lines([sums])) == ["orders: 15 sent = 10 stored + 5 rejected; 2 dead letters, 3 lost, 0 replayed"]
    report = compute(spark, str(tmp_path / "tables"), 0)
    (row,) = report.sections["dead_letters"].to_pylist()
    assert picked(row, "sent stored rejected dead_letters lost") == [15, 10, 5, 2, 3]
    assert "in no dead letter topic" in render(report, 0)


@pytest.mark.parametrize("flags", [["--watch"]])
def test_dead_letter_topics_are_not_read_again_and_again(flags: list[str]) -> None:
    from support.commands import CliRunner

    from kafka_sidecar.pipeline.cli import app

    done = CliRunner().invoke(app, ["reconcile", "--dead-letters", "dlq", *flags])
    assert (done.exit_code, "give it without --watch" in done.output) == (2, True)
