"""What sidecars have reported: holes, and up to when nothing more will come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile.history import History, history_of, parts_of
from kafka_sidecar.pipeline.reconcile.intervals import reported
from kafka_sidecar.pipeline.reconcile.sql import column
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, frame, interval, minute
from pipeline.reconcile.traffic import MINUTE

LATENESS = 10 * MINUTE
CLOSING = {"is_closing": True}
# Events, minutes now: until which minute all have reported, and holes as (cause, from seq, from, to in minutes).
CASES: dict[str, tuple[list[Event], float, float, list[tuple[Any, ...]]]] = {
    "all have reported": ([interval("a", 0), interval("a", 1)], 3, 2, []),
    "the slowest counts": ([interval("a", 0), interval("a", 1), interval("b", 0)], 3, 1, []),
    "one that ended is not waited for": ([interval("a", 0, **CLOSING), interval("b", 0), interval("b", 1)], 3, 2, []),
    "no sidecar is left": ([interval("a", 0, **CLOSING)], 30, 30, []),
    "a missing number is waited for": ([interval("a", 0), interval("a", 3)], 5, 1, []),
    "a missing number for good": ([interval("a", 0), interval("a", 3)], 13.5, 4, [("missing", 1, 1, 3)]),
    "the first ones are missing": ([interval("a", 2, **CLOSING)], 30, 30, [("missing", 0, 0, 2)]),
    "an event is missing": (
        [interval("a", 0, 2), counts("a", 0, 1, "commit", [[0, 1]]), interval("a", 1, **CLOSING)],
        30,
        30,
        [("missing", 0, 0, 1)],
    ),
    "all events are there": (
        [interval("a", 0, 1, **CLOSING), counts("a", 0, 0, "commit", [[0, 1]])],
        30,
        30,
        [],
    ),
    "no event ends the interval": (
        [counts("a", 0, 0, "commit", [[0, 1]]), interval("a", 1, **CLOSING)],
        30,
        30,
        [("missing", 0, 0, 1)],
    ),
    "killed, and started again": (
        [interval("a", 0), interval("a", 0, epoch=5)],
        7,
        6,
        [("unfinished", 1, 1, 5)],
    ),
    "killed before its first event": ([counts("a", 0, 0, "commit", [[0, 1]])], 30, 30, [("silent", 0, 0, 10)]),
    "silent": ([interval("a", 0)], 30, 30, [("silent", 1, 1, 11)]),
    "events without room": (
        [interval("a", 0, 1, lost_events=1, lost_min_ts=minute(-3), lost_max_ts=minute(0) - 1, **CLOSING)],
        30,
        30,
        [("discarded", 0, -3, 0)],
    ),
    "events without room and without a time": (
        [interval("a", 0, 1, lost_events=1, **CLOSING)],
        30,
        30,
        [("missing", 0, 0, 1)],
    ),
}


@pytest.fixture(scope="module")
def histories(spark: SparkSession) -> History:
    """Of all cases, computed at once: each has sidecars of its own."""
    events = [
        event | {"emitter_id": f"{case}/{event['emitter_id']}"}
        for case, (found, *_) in CASES.items()
        for event in found
    ]
    return history_of(parts_of(frame(spark, *events))).computed()


@pytest.mark.parametrize("case", CASES)
def test_holes_and_how_far_all_have_reported(histories: History, case: str) -> None:
    _, now, until, holes = CASES[case]
    is_mine = column("emitter_id").startswith(f"{case}/")
    mine = replace(histories, intervals=histories.intervals.where(is_mine), topics=histories.topics.where(is_mine))
    found = reported(mine, minute(now), LATENESS)
    assert found.until == minute(until)
    assert [(row.cause, row.from_seq, row.from_ms, row.to_ms) for row in found.holes.collect()] == [
        (cause, seq, minute(begin), minute(end)) for cause, seq, begin, end in holes
    ]


def test_a_hole_names_the_topics_of_its_sidecar(spark: SparkSession) -> None:
    events = [interval("a", 0, 1), counts("a", 0, 0, "commit", [[0, 1]], topic="x"), interval("b", 0)]
    holes = reported(history_of(parts_of(frame(spark, *events))), minute(30), LATENESS).holes
    assert {row.emitter_id: row.topics for row in holes.collect()} == {"a": ["x"], "b": []}
