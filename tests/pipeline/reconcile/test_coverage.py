"""Ranges of offsets, compared with sets of offsets."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession, functions

from kafka_sidecar.pipeline.reconcile import coverage
from kafka_sidecar.pipeline.reconcile.history import history_of, parts_of
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, frame, minute


def groups_of(events: DataFrame) -> coverage.Groups:
    return coverage.groups_of(history_of(parts_of(events)).marks.localCheckpoint())


def offsets_by(name: str, rows: list[Row]) -> dict[Any, set[int]]:
    """The offsets of ranges, by another column."""
    found: defaultdict[Any, set[int]] = defaultdict(set)
    for row in rows:
        found[row[name]].update(range(row.first, row.last + 1))
    return found


def within(sides: list[list[list[int]]]) -> set[int]:
    return {offset for ranges in sides for first, last in ranges for offset in range(first, last + 1)}


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


def test_lost_and_unaudited_offsets_are_those_of_sets(spark: SparkSession) -> None:
    events: list[Event] = []
    sides: list[tuple[set[int], set[int]]] = []
    for partition in range(4):
        dice = random.Random(partition)
        sent, got = [random_ranges(dice) for _ in range(4)], [random_ranges(dice) for _ in range(3)]
        events += [acked(*ranges, partition=partition) for ranges in sent]
        events += [read(*ranges, partition=partition) for ranges in got]
        sides.append((within(sent), within(got)))
    rows = frame(spark, *events)
    cut = coverage.segments(rows, groups_of(rows)).localCheckpoint()
    lost, unaudited = (
        offsets_by("partition", side.collect()) for side in (coverage.lost(cut), coverage.unaudited(cut))
    )
    sums = {row.partition: row for row in coverage.by_partition(cut).collect()}
    for partition, (sent_offsets, got_offsets) in enumerate(sides):
        reached = {offset for offset in sent_offsets if offset <= max(got_offsets)}
        assert lost.get(partition, set()) == reached - got_offsets
        assert unaudited.get(partition, set()) == got_offsets - sent_offsets
        row = sums[partition]
        assert (row.offsets, row.pending, row.missing, row.before) == (
            len(sent_offsets),
            len(sent_offsets - reached),
            len(reached - got_offsets),
            0,
        )


# Events, and what their group has lost.
LOST: dict[str, tuple[list[Event], set[int]]] = {
    "since the group was there when it was sent": ([acked([0, 9]), read([5, 9])], set(range(5))),
    "in the bucket in which it was first seen": ([acked([0, 9], bucket_start=minute(2)), read([5, 9])], set(range(5))),
    "before it was there": ([acked([0, 9], bucket_start=minute(0)), read([5, 9])], set()),
    "not reached yet": ([acked([0, 9]), read([0, 4])], set()),
    "reached by a commit": (
        [acked([0, 9]), read([0, 4]), counts("c", 2, 0, "commit", [[0, 9]], group="g")],
        {5, 6, 7, 8, 9},
    ),
    "another partition": ([acked([0, 9]), read([0, 9], partition=1)], set()),
    "in two parts": ([acked([0, 9]), read([0, 0], [9, 9]), read([1, 8])], set()),
}


@pytest.fixture(scope="module")
def lost_by_case(spark: SparkSession) -> dict[str, set[int]]:
    """Of all cases, computed at once: each has a topic of its own."""
    rows = frame(spark, *(event | {"topic": case} for case, (events, _) in LOST.items() for event in events))
    return offsets_by("topic", coverage.lost(coverage.segments(rows, groups_of(rows))).collect())


@pytest.mark.parametrize("case", LOST)
def test_a_group_has_lost_what_it_passed_since_it_began(lost_by_case: dict[str, set[int]], case: str) -> None:
    _, lost = LOST[case]
    assert lost_by_case.get(case, set()) == lost


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
