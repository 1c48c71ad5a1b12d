"""Lists of integers without objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kafka_sidecar.codec.int64_list import Int64List

integers = some.integers(-(1 << 63), (1 << 63) - 1)


@given(some.lists(integers))
def test_a_list_has_what_was_appended(values: list[int]) -> None:
    longs = Int64List()
    for value in values:
        longs.append(value)
    assert list(longs) == values
    assert [longs.get(index) for index in range(len(longs))] == values


@given(some.lists(some.tuples(some.integers(0, 400), some.integers(1, 1000))))
def test_integers_that_nothing_was_added_to_are_zero(added: list[tuple[int, int]]) -> None:
    longs, sums = Int64List(), [0] * (max((index for index, _ in added), default=-1) + 1)
    for index, value in added:
        longs.add(index, value)
        sums[index] += value
    assert list(longs) == sums


@given(some.sets(some.integers(-50, 50)), some.integers(-60, 60))
def test_a_value_is_found_where_it_is(values: set[int], wanted: int) -> None:
    longs = Int64List()
    for value in sorted(values):
        longs.append(value)
    assert longs.find(wanted) == (sorted(values).index(wanted) if wanted in values else -1)


@pytest.mark.parametrize("index", [-1, 1])
def test_there_is_nothing_outside_of_a_list(index: int) -> None:
    longs = Int64List()
    longs.append(5)
    with pytest.raises(IndexError):
        longs.get(index)
    with pytest.raises(IndexError):
        longs.add(-1, 1)
