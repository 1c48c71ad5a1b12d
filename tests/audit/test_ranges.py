"""Offset ranges compared with plain sets of offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.audit.ranges import OffsetRanges

BATCHES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda one: (one[0], one[0] + one[1])))


def offsets(ranges: OffsetRanges) -> set[int]:
    return {offset for first, last in ranges.pairs() for offset in range(first, last + 1)}


@given(BATCHES)
def test_ranges_are_exactly_what_was_added(batches: list[tuple[int, int]]) -> None:
    ranges = OffsetRanges()
    grown = sum(ranges.add(first, last) for first, last in batches)
    pairs = ranges.pairs()
    assert offsets(ranges) == {offset for first, last in batches for offset in range(first, last + 1)}
    assert all(before[1] + 1 < after[0] for before, after in pairwise(pairs))
    assert grown == len(ranges) == len(pairs)
    assert ranges.is_exact
    assert (ranges.first, ranges.last) == ((pairs[0][0], pairs[-1][1]) if pairs else (None, None))


@given(BATCHES, st.integers(1, 3))
def test_without_room_ranges_cover_what_was_added_and_say_that_it_is_more(
    batches: list[tuple[int, int]], max_ranges: int
) -> None:
    ranges = OffsetRanges()
    for first, last in batches:
        ranges.add(first, last, len(ranges) < max_ranges)
    exact = {offset for first, last in batches for offset in range(first, last + 1)}
    assert exact <= offsets(ranges)
    assert ranges.is_exact == (offsets(ranges) == exact)
    assert len(ranges) <= max_ranges


def test_the_nearest_range_is_extended() -> None:
    ranges = OffsetRanges()
    ranges.add(0, 9)
    ranges.add(100, 109)
    ranges.add(90, 91, has_room=False)
    ranges.add(20, 21, has_room=False)
    ranges.add(200, 201, has_room=False)
    assert ranges.pairs() == [(0, 21), (90, 201)]
