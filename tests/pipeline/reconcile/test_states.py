"""The life of a row: OPEN, PROVISIONAL, FINAL, CORRECTED, UNKNOWN, and the alerts that follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.reconcile.conftest import run, table, write_files
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, interval, minute
from pipeline.reconcile.traffic import COMPACTED as COMPACTED_TOPIC


class Life:
    """One topic, whose events come bit by bit."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def goes_on(self, now: float, events: Sequence[Event]) -> dict[str, Any]:
        """The row of group g for the first minute after these events have come."""
        write_files(self.folder / "in", events, 1)
        run(self.spark, self.folder / "in", self.folder / "out", lambda: minute(now))
        found = [row for row in self.table("reconcile") if (row["group"], row["bucket_start"]) == ("g", minute(0))]
        return found[0] if found else {}

    def table(self, name: str) -> list[dict[str, Any]]:
        return table(self.spark, self.folder / "out", name)


def sent(seq: int, *ranges: list[int], **values: Any) -> list[Event]:
    kept = {"bucket_start": minute(0)} | values
    attempt = counts("p", seq, 0, "produce_attempt", [], count=10, **kept)
    return [attempt, counts("p", seq, 1, "produce_ack", list(ranges), **kept), interval("p", seq, 2)]


def read(seq: int, *ranges: list[int]) -> list[Event]:
    found = counts("c", seq, 0, "fetch_delivered", list(ranges), group="g", bucket_start=minute(0))
    return [found, interval("c", seq, 1)]


def test_a_row_is_open_provisional_final_and_corrected(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    row = life.goes_on(1.1, [*sent(0, [0, 9]), *read(0, [0, 4])])
    assert (row["state"], row["expected"], row["pending"], row["missing"]) == ("OPEN", 10, 5, 0)
    row = life.goes_on(2.1, read(1, [7, 9]))
    assert (row["state"], row["pending"], row["missing"]) == ("PROVISIONAL", 0, 2)
    assert life.table("alerts") == []
    row = life.goes_on(4.1, [interval("p", 1), interval("p", 2), interval("c", 2), interval("c", 3), interval("p", 3)])
    assert (row["state"], row["missing"], row["completeness"]) == ("FINAL", 2, 0.8)
    (alert,) = life.table("alerts")
    assert (alert["raised_missing"], alert["missing"], alert["is_resolved"]) == (2, 2, False)
    row = life.goes_on(5.1, [*read(4, [5, 6]), interval("p", 4)])
    assert (row["state"], row["missing"], row["completeness"]) == ("CORRECTED", 0, 1.0)
    (alert,) = life.table("alerts")
    assert (alert["raised_missing"], alert["missing"], alert["is_resolved"]) == (2, 0, True)
    assert life.table("losses") == []


def test_nothing_is_lost_where_a_sidecar_was_killed(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    before = [*sent(0, [0, 9]), *read(0, [0, 4]), interval("p", 1), interval("p", 2), interval("p", 3, is_closing=True)]
    again = counts("c", 0, 0, "fetch_delivered", [[8, 9]], group="g", bucket_start=minute(0), epoch=2.5)
    row = life.goes_on(4, [*before, again, interval("c", 0, 1, epoch=2.5), interval("c", 1, epoch=2.5)])
    assert (row["state"], row["missing"]) == ("UNKNOWN", 3)
    assert [one["finding"] for one in life.table("losses")] == ["unknown"]
    assert life.table("alerts") == []
    assert [one["cause"] for one in life.table("holes")] == ["unfinished"]


def topics(*wholes: tuple[str, int, list[int], list[int]]) -> list[Event]:
    """Of each topic: what p has seen acknowledged, from offset 0 up to a number, and what group g was sent at c."""
    first = {"bucket_start": minute(0)}
    acked: list[Event] = []
    got: list[Event] = []
    for topic, count, *ranges in wholes:
        about = {"topic": topic, "interval_events": len(wholes), **first}
        acked.append(counts("p", 0, len(acked), "produce_ack", [[0, count - 1]], **about))
        got.append(counts("c", 0, len(got), "fetch_delivered", ranges, group="g", **about))
    ends = [interval(name, seq, len(wholes) * (not seq), is_closing=seq == 4) for name in "pc" for seq in range(5)]
    return [*acked, *got, *ends]


def test_what_a_sidecar_may_have_counted_at_its_first_contact_with_a_topic_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    life = Life(spark, tmp_path)
    events = topics(("gap", 10, [0, 4], [7, 9]), ("whole", 10, [0, 3], [4, 9]), ("more", 10, [0, 5], [6, 12]))

    def found(now: float, *more: Event) -> tuple[dict[str, str], dict[str, tuple[str, int, int]]]:
        life.goes_on(now, more)
        ranges = {row["topic"]: row for row in life.table("losses")}
        return (
            {row["topic"]: row["state"] for row in life.table("reconcile") if row["group"] == "g"},
            {name: (row["finding"], row["first_offset"], row["last_offset"]) for name, row in ranges.items()},
        )

    assert found(5, *events) == (
        {"gap": "FINAL", "whole": "FINAL", "more": "FINAL"},
        {"gap": ("lost", 5, 6), "more": ("unaudited", 10, 12)},
    )
    # Killed after an interval in which it has reported another topic alone; its next life ends in good order.
    other = counts("k", 0, 0, "produce_ack", [[0, 9]], topic="other")
    assert found(5, other, interval("k", 0, 1), interval("k", 0, epoch=3, is_closing=True)) == (
        {"gap": "UNKNOWN", "whole": "FINAL", "more": "UNKNOWN"},
        {"gap": ("unknown", 5, 6), "more": ("unreported", 10, 12)},
    )


def test_what_was_unknown_is_final_once_the_missing_events_come(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    closed = [interval("p", 1, is_closing=True), interval("c", 2, is_closing=True)]
    row = life.goes_on(40, [*sent(0, [0, 9]), *read(0, [0, 3], [9, 9]), *closed])
    assert (row["state"], row["missing"]) == ("UNKNOWN", 5)
    row = life.goes_on(41, read(1, [4, 8]))
    assert (row["state"], row["missing"]) == ("FINAL", 0)
    assert life.table("holes") == []


def test_time_alone_ends_the_wait_for_a_sidecar(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    assert life.goes_on(2.1, [*sent(0, [0, 9]), *read(0, [0, 9])])["state"] == "PROVISIONAL"
    assert life.goes_on(40, [])["state"] == "UNKNOWN"  # both sidecars are silent since then
    assert {one["cause"] for one in life.table("holes")} == {"silent"}


def test_attempts_without_a_response_raise_no_alert(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    closed = [interval(name, 1, is_closing=True) for name in "pc"]
    life.goes_on(5, [*sent(0, [0, 7]), *read(0, [0, 7]), *closed])
    (produced,) = [row for row in life.table("reconcile") if row["hop"] == "produce"]
    assert (produced["state"], produced["missing"], produced["completeness"]) == ("FINAL", 2, 0.8)
    assert life.table("alerts") == []


def test_what_a_group_has_not_got_of_a_compacted_topic_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    about = {"topic": COMPACTED_TOPIC}
    events = [*sent(0, [0, 9]), *read(0, [0, 3], [9, 9]), *(interval(name, 1, is_closing=True) for name in "pc")]
    row = life.goes_on(5, [event | (about if event["kind"] == "counts" else {}) for event in events])
    assert (row["state"], row["missing"]) == ("COMPACTED", 5)
    (found,) = life.table("losses")
    assert (found["finding"], found["first_offset"], found["last_offset"]) == ("compacted", 4, 8)
    assert life.table("alerts") == []


def test_events_without_an_id_are_of_the_topic_that_was_there_at_the_time(spark: SparkSession, tmp_path: Path) -> None:
    life, first, second = Life(spark, tmp_path), "A" * 22, "B" * 22

    def of(topic_id: str, events: list[Event]) -> list[Event]:
        return [event | ({"topic_id": topic_id} if event["kind"] == "counts" else {}) for event in events]

    # The producer's sidecar says no ids, that of the group does from its second interval on.
    late = {"bucket_start": minute(3)}
    again = [counts("p", 3, 0, "produce_ack", [[0, 5]], **late), interval("p", 3, 1, is_closing=True)]
    got = counts("c", 3, 0, "fetch_delivered", [[4, 5]], group="g", **late)
    events = [*sent(0, [0, 9]), *read(0, [0, 4]), *of(first, read(1, [5, 9])), interval("p", 1), interval("p", 2)]
    events += [interval("c", 2), *again, *of(second, [got]), interval("c", 3, 1, is_closing=True)]
    life.goes_on(9, events)
    rows = {row["topic_id"]: row for row in life.table("reconcile") if row["hop"] == "deliver"}
    assert {topic_id: (row["expected"], row["missing"], row["surplus"]) for topic_id, row in rows.items()} == {
        first: (10, 0, 0),
        second: (6, 4, 0),
    }
    assert [(row["topic_id"], row["finding"], row["last_offset"]) for row in life.table("losses")] == [
        (second, "lost", 3)
    ]
