"""Sums of which each hour has its part: a digest says what its events said."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.pipeline.reconcile.coverage import groups_of
from kafka_sidecar.pipeline.reconcile.history import History, digest, history_of, parts_of
from pipeline.reconcile.emitted import emit
from pipeline.reconcile.made import counts, frame, interval, minute
from pipeline.reconcile.traffic import traffic


def contents(history: History) -> list[list[str]]:
    frames = (history.intervals, history.topics, history.marks, history.hours)
    return [sorted(map(repr, table.collect())) for table in frames]


def halves(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    events = emit(traffic(seed=8, minutes=12))
    return frame(spark, *events[::2]), frame(spark, *events[1::2])


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> History:
    one, other = halves(spark)
    return history_of(parts_of(one.unionByName(other))).computed()


def test_digests_add_up_to_what_all_events_say(spark: SparkSession, whole: History) -> None:
    one, other = halves(spark)
    history = history_of(parts_of(one)).computed()
    parts = digest(history, is_expired=False).unionByName(parts_of(other), allowMissingColumns=True)
    assert contents(history_of(parts)) == contents(whole)


@pytest.mark.parametrize("is_expired", [False, True])
def test_groups_are_where_they_were_in_the_digest(whole: History, is_expired: bool) -> None:
    again = history_of(digest(whole, is_expired)).marks.localCheckpoint()
    found, expected = (sorted(map(repr, groups_of(marks).partitions.collect())) for marks in (again, whole.marks))
    assert found == expected


def test_an_expired_hour_keeps_one_mark_of_a_group_that_is_not_too_early(spark: SparkSession) -> None:
    read = {"group": "g", "bucket_start": minute(0)}
    events = [
        counts("c", 0, 0, "commit", [[0, 3]], **read),
        counts("c", 1, 0, "fetch_delivered", [[2, 5]], **read),
        counts("c", 2, 0, "fetch_delivered", [[6, 7]], **read),
        interval("c", 0, 1),
    ]
    (mark,) = history_of(digest(history_of(parts_of(frame(spark, *events))), is_expired=True)).marks.collect()
    assert (mark["first"], mark.last_offset, mark.committed, mark.since, mark["at"]) == (2, 7, 3, minute(2), minute(3))
