"""What becomes of old hours: one folder each, and in the end only what others need to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile.compaction import HOURS_AT_ONCE, MAX_FOLDERS, Hour, _kind
from kafka_sidecar.pipeline.reconcile.folders import COMPACTED, EXPIRED, Folder
from kafka_sidecar.pipeline.reconcile.tables import Tables
from pipeline.reconcile.conftest import LIMITS, run, table, write_files
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, interval, minute
from pipeline.reconcile.traffic import MINUTE

HOUR = "2026-01-01-00"
KEPT = replace(LIMITS, retention=180 * MINUTE)


def sent(seq: int, first: int) -> list[Event]:
    """Ten records of minute ``seq``, of which a group gets all but one."""
    ranges = [[first, first + 4], [first + 6, first + 9]]
    return [
        counts("p", seq, 0, "produce_attempt", [], count=10),
        counts("p", seq, 1, "produce_ack", [[first, first + 9]]),
        interval("p", seq, 2),
        counts("c", seq, 0, "fetch_delivered", ranges, group="g"),
        interval("c", seq, 1),
    ]


def quiet(seq: int) -> list[Event]:
    return [interval(emitter, seq) for emitter in ("p", "c")]


class Life:
    """One topic over hours."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.tables = Tables(spark, str(folder / "out"))

    def goes_on(self, now: float, events: Sequence[Event]) -> None:
        write_files(self.folder / "in", events, 1)
        run(self.spark, self.folder / "in", self.folder / "out", lambda: minute(now), limits=KEPT)

    def rows(self) -> list[tuple[int, str, int, int, str]]:
        found = table(self.spark, self.folder / "out", "reconcile")
        return sorted((one["bucket_start"], one["hop"], one["seen"], one["missing"], one["state"]) for one in found)

    def names(self, name: str, hour: str = HOUR) -> list[str]:
        return sorted(path.name for path in (self.folder / "out" / name / f"hour={hour}").glob("batch=*"))


def test_an_hour_at_rest_is_merged_and_expires_with_its_rows_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    life.goes_on(1.1, sent(0, 0))
    life.goes_on(3.1, [*sent(1, 10), *quiet(2)])
    life.goes_on(122, [event for seq in range(3, 120) for event in quiet(seq)])
    rows = life.rows()
    final = [("deliver", 9, 1, "FINAL"), ("produce", 10, 0, "FINAL")]
    assert rows == [(minute(seq), *row) for seq in (0, 1) for row in final]
    life.goes_on(123.1, [*sent(120, 20), *quiet(121), *quiet(122)])
    assert life.names("events") == life.names("digests") == ["batch=000000000002-compacted"]
    life.goes_on(400, [event for seq in range(123, 399) for event in quiet(seq)])
    assert life.names("events") == life.names("finals") == []
    assert life.names("digests") == ["batch=000000000003-expired"]
    late = counts("late", 0, 0, "produce_ack", [[5, 5]], bucket_start=minute(0), epoch=399)
    life.goes_on(402, [*quiet(399), *quiet(400), late, interval("late", 0, 1, epoch=399, is_closing=True)])
    assert [row for row in life.rows() if row[0] < minute(60)] == rows
    # The events are gone, but not what they said: no interval is missing, and the group goes on where it was.
    assert table(spark, tmp_path / "out", "holes") == []
    life.goes_on(403.1, [*sent(401, 30), *quiet(402)])
    assert [row for row in life.rows() if row[0] == minute(401)] == [(minute(401), *row) for row in final]


def hour(events: Sequence[Folder] = (), finals: Sequence[Folder] = (), digest: Folder | None = None) -> Hour:
    return Hour(digest, {"events": list(events), "finals": list(finals)})


def plain(count: int) -> list[Folder]:
    return [Folder(HOUR, batch) for batch in range(count)]


@pytest.mark.parametrize(
    ("found", "is_busy", "is_old", "kind"),
    [
        (hour(plain(1)), True, False, None),
        (hour(plain(MAX_FOLDERS)), True, False, COMPACTED),
        (hour(plain(1)), False, False, COMPACTED),  # its digest is missing
        (hour(plain(1), digest=Folder(HOUR, 0, COMPACTED)), False, False, None),
        (hour(plain(2), digest=Folder(HOUR, 1, COMPACTED)), False, False, COMPACTED),
        (hour(plain(1), plain(2), Folder(HOUR, 1, COMPACTED)), False, False, COMPACTED),
        (hour(plain(1), digest=Folder(HOUR, 0, COMPACTED)), False, True, EXPIRED),
        (hour(digest=Folder(HOUR, 0, EXPIRED)), False, True, None),
        (hour(plain(1), digest=Folder(HOUR, 0, EXPIRED)), False, False, None),  # late, and waits for its own end
        (hour(plain(1), digest=Folder(HOUR, 0, EXPIRED)), False, True, EXPIRED),
    ],
)
def test_an_hour_is_merged_once_it_is_worth_it(found: Hour, is_busy: bool, is_old: bool, kind: str | None) -> None:
    assert _kind(found, is_busy, is_old) == kind


def test_a_day_of_hours_is_merged_in_one_batch() -> None:
    assert HOURS_AT_ONCE >= 24
