"""Ranges of offsets, compared with sets of offsets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from kafka_sidecar.pipeline.reconcile import coverage
from kafka_sidecar.pipeline.reconcile.history import history_of, parts_of
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, frame, minute


def groups_of(events: DataFrame) -> coverage.Groups:
    return coverage.groups_of(history_of(parts_of(events)).marks)


def offsets(rows: list[Any]) -> set[int]:
    return {offset for row in rows for offset in range(row.first, row.last + 1)}


def acked(*ranges: list[int], **values: Any) -> Event:
    return counts("p", 5, 0, "produce_ack", list(ranges), **values)


def read(*ranges: list[int], **values: Any) -> Event:
    return counts("c", 1, 0, "fetch_delivered", list(ranges), **{"group": "g", "bucket_start": minute(5)} | values)


def random_ranges(dice: random.Random) -> list[list[int]]:
    found, at = [], dice.randrange(20)
    for _ in range(dice.randint(1, 5)):
        end = at + dice.randrange(15)
        found.append([at, end])
        at = end + 2 + dice.randrange(15)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_lost_and_unaudited_offsets_are_those_of_sets(spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    sent, got = [random_ranges(dice) for _ in range(4)], [random_ranges(dice) for _ in range(3)]
    events = frame(spark, *(acked(*ranges) for ranges in sent), *(read(*ranges) for ranges in got))
    cut = coverage.segments(events, groups_of(events)).cache()
    sent_offsets, got_offsets = (
        {offset for ranges in side for first, last in ranges for offset in range(first, last + 1)}
        for side in (sent, got)
    )
    reached = {offset for offset in sent_offsets if offset <= max(got_offsets)}
    assert offsets(coverage.lost(cut).collect()) == reached - got_offsets
    assert offsets(coverage.unaudited(cut).collect()) == got_offsets - sent_offsets
    (row,) = coverage.by_partition(cut).collect()
    assert (row.offsets, row.pending, row.missing, row.before) == (
        len(sent_offsets),
        len(sent_offsets - reached),
        len(reached - got_offsets),
        0,
    )


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        ([acked([0, 9]), read([5, 9])], set(range(5))),  # since the group was there when it was sent
        ([acked([0, 9], bucket_start=minute(0)), read([5, 9])], set()),  # before it was there
        ([acked([0, 9]), read([0, 4])], set()),  # not reached yet
        ([acked([0, 9]), read([0, 4]), counts("c", 2, 0, "commit", [[0, 9]], group="g")], {5, 6, 7, 8, 9}),
        ([acked([0, 9]), read([0, 9], partition=1)], set()),
        ([acked([0, 9]), read([0, 0], [9, 9]), read([1, 8])], set()),
    ],
)
def test_a_group_has_lost_what_it_passed_since_it_began(
    spark: SparkSession, events: list[Event], lost: set[int]
) -> None:
    rows = frame(spark, *events)
    assert offsets(coverage.lost(coverage.segments(rows, groups_of(rows))).collect()) == lost


def test_readers_without_a_group_lose_nothing(spark: SparkSession) -> None:
    rows = frame(spark, acked([0, 9]), read([0, 2], [8, 9], group=None))
    assert coverage.segments(rows, groups_of(rows)).collect() == []


def test_neighbours_are_one_range_with_both_buckets(spark: SparkSession) -> None:
    rows = frame(
        spark, acked([0, 9]), acked([10, 19], bucket_start=minute(6)), acked([20, 29]), read([20, 29], [31, 31])
    )
    parts = coverage.lost(coverage.segments(rows, groups_of(rows)))
    named = parts.withColumns({name: functions.lit(name) for name in ("hour", "finding", "state")})
    (row,) = coverage.joined(named).collect()
    assert (row.first_offset, row.last_offset, row.buckets) == (0, 19, [minute(5), minute(6)])


def test_a_bucket_is_reached_when_the_first_event_passes_its_end(spark: SparkSession) -> None:
    rows = frame(
        spark, acked([0, 9]), read([0, 4], emitted_at=1), read([5, 20], emitted_at=7), read([21, 30], emitted_at=9)
    )
    groups = groups_of(rows)
    needs = coverage.by_partition(coverage.segments(rows, groups))
    assert [row["at"] for row in coverage.reached_at(needs, groups.marks).collect()] == [7]
