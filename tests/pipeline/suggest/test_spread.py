"""Numbers in buckets: ends that omit what is far away, percentiles, and that no order matters."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.pipeline.suggest.spread import Spread

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), st.integers(-9, 9)
)


def spread(numbers: Sequence[int | float], is_fine: bool = False) -> Spread:
    found = Spread(is_fine)
    for one in numbers:
        found.add(one)
    return found


@given(st.lists(NUMBERS, min_size=1))
def test_without_tolerance_the_ends_are_the_smallest_and_the_largest(numbers: list[int | float]) -> None:
    assert spread(numbers).ends() == (min(numbers), max(numbers))


@given(st.lists(NUMBERS, min_size=1), st.floats(0, 0.5))
def test_with_a_tolerance_no_more_than_its_share_is_outside(numbers: list[int | float], tolerance: float) -> None:
    least, most = spread(numbers).ends(tolerance)
    assert sum(not least <= one <= most for one in numbers) <= tolerance * len(numbers)


@given(st.lists(NUMBERS), st.lists(NUMBERS), st.lists(NUMBERS))
def test_spreads_merge_in_any_order(one: list[int | float], two: list[int | float], three: list[int | float]) -> None:
    whole = spread(one + two + three)
    for order in ((one, two, three), (three, one, two), (two, three, one)):
        left, right = spread(order[0]), spread(order[1])
        left.merge(deepcopy(right))
        left.merge(spread(order[2]))
        right.merge(spread(order[2]))
        other = spread(order[0])
        other.merge(right)
        assert left == other == whole


@pytest.mark.parametrize(
    ("usual", "others", "ends"),
    [
        (range(1001), [10**9], (0, 1000)),
        (range(1001), [-50_000], (0, 1000)),
        (range(1000, 3001), [0, -1], (1000, 3000)),
        (range(1001), [1500], (0, 1500)),  # not far away
        (range(-5, 996), [10**7, -(10**7)], (-5, 995)),
        (range(1001), [-1], (0, 1000)),  # the only one below zero
        (range(-1000, 0), [1], (-1000, -1)),
        (range(-5, 996), [-3], (-5, 995)),
        ([0.5, 0.25, 0.75] * 400, [4096.0], (0.25, 0.75)),
    ],
)
def test_a_few_numbers_far_away_are_omitted(
    usual: list[int | float], others: list[int | float], ends: tuple[float, float]
) -> None:
    assert spread([*usual, *others]).ends(0.002) == ends
    assert spread([*usual, *others]).ends() == (min(*usual, *others), max(*usual, *others))


def test_percentiles_are_at_most_an_eighth_too_large() -> None:
    numbers = [Random(seed).randint(0, 10**6) for seed in range(2000)]
    found, in_order = spread(numbers, is_fine=True), sorted(numbers)
    for share in (0.01, 0.5, 0.99):
        exact = in_order[int(share * (len(numbers) - 1))]
        assert exact <= found.percentile(share) * 1.001 + 1
        assert found.percentile(share) <= exact * 1.14 + 1
    assert found.percentile(1) == in_order[-1]
