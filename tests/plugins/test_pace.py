"""How many records fit into a turn of the event loop, as plug-ins have been measured."""

from __future__ import annotations

import sys

import pytest

from kafka_sidecar.plugins.pace import (
    MAX_TURN_S,
    PROBATION_BATCHES,
    TOO_LONG_S,
    UNMEASURED_RECORDS,
    WINDOW_RECORDS,
    Pace,
    are_ours,
)
from kafka_sidecar.policies.builtin.json import WellFormedJson


def test_little_is_looked_into_at_once_before_anything_is_measured() -> None:
    assert Pace().records_at_once == UNMEASURED_RECORDS


@pytest.mark.parametrize(("records", "seconds", "at_once"), [(1, 0.001, 20), (400, 0.004, 2000), (10, 0.2, 1)])
def test_as_many_records_fit_as_take_no_longer_than_a_turn(records: int, seconds: float, at_once: int) -> None:
    pace = Pace()
    pace.add(records, seconds)
    assert pace.records_at_once == at_once == int(MAX_TURN_S * records / seconds)


def test_not_even_one_record_fits_if_one_takes_longer_than_a_turn() -> None:
    pace = Pace()
    pace.add(3, 3 * MAX_TURN_S * 1.1)
    assert pace.records_at_once == 0


def test_batches_that_take_no_time_fit_whatever_their_size() -> None:
    pace = Pace()
    pace.add(1000, 0.0)
    assert pace.records_at_once == sys.maxsize


def test_a_batch_without_records_says_nothing() -> None:
    pace = Pace()
    pace.add(0, 1.0)
    assert pace.records_at_once == UNMEASURED_RECORDS


def test_one_slow_record_after_many_fast_ones_says_little() -> None:
    pace = Pace()
    pace.add(100_000, 0.1)
    pace.add(1, 0.002)
    assert pace.records_at_once > 1000


def test_a_plug_in_that_becomes_slow_is_known_as_slow_after_one_batch() -> None:
    pace = Pace()
    pace.add(100_000, 0.1)
    pace.add(WINDOW_RECORDS, WINDOW_RECORDS * 0.02)
    assert pace.records_at_once <= 2


def test_a_plug_in_that_becomes_fast_again_is_known_as_fast_after_some_batches() -> None:
    pace = Pace()
    pace.add(400, 8.0)
    added = 0
    while pace.records_at_once < 400:
        pace.add(400, 0.0004)
        added += 1
    assert 1 < added < 20


def test_a_plug_in_of_others_is_on_probation_first_and_again_after_a_batch_that_took_too_long() -> None:
    pace = Pace(is_trusted=False)
    for _ in range(PROBATION_BATCHES):
        assert pace.needs_thread
        assert pace.records_at_once == 0
        pace.add(1, 0.000001)
    assert not pace.needs_thread
    assert pace.records_at_once == pace.records_per_turn > 1000
    pace.add(1000, TOO_LONG_S * 1.1)
    assert pace.needs_thread


def test_a_plug_in_that_only_sees_headers_leaves_its_probation_too() -> None:
    pace = Pace(is_trusted=False)
    for _ in range(PROBATION_BATCHES):
        pace.add(0, 0.0)
    assert not pace.needs_thread


def test_what_is_built_in_is_ours_and_nothing_else() -> None:
    assert are_ours([WellFormedJson(), WellFormedJson()])
    assert not are_ours([WellFormedJson(), object()])
