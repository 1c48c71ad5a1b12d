"""Offsets as ranges, latencies as sketches: what a tally sums."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.audit.tally import BASE, MAX_INDEX, OffsetRanges, bucket_of, encode

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


LATENCIES = st.floats(min_value=0, max_value=1e12)


@given(LATENCIES)
def test_a_latency_is_within_the_bounds_of_its_bucket(latency: float) -> None:
    index = bucket_of(latency)
    assert latency <= BASE**index * (1 + 1e-9)
    assert index == 0 or latency > BASE ** (index - 1) * (1 - 1e-9)


def test_bounds_belong_to_the_lower_bucket() -> None:
    assert [bucket_of(BASE**index) for index in range(1, 100)] == list(range(1, 100))


def test_absurd_latencies_are_in_the_last_bucket() -> None:
    assert bucket_of(1e300) == MAX_INDEX
    assert bucket_of(-1e300) == 0


@given(st.lists(LATENCIES), st.lists(LATENCIES))
def test_merged_sketches_are_the_sketch_of_all(some: list[float], others: list[float]) -> None:
    def sketch(values: list[float]) -> Counter[int]:
        return Counter(map(bucket_of, values))

    assert encode(sketch(some) + sketch(others)) == encode(sketch(some + others))


def test_a_sketch_without_latencies_is_none() -> None:
    assert encode({}) is None
    assert encode({3: 1, 0: 2}) == {"base": 1.1, "i": [0, 3], "c": [2, 1]}
