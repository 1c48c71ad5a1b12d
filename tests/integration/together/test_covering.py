"""The runs have every combination that they must have."""

from __future__ import annotations

import itertools

import pytest
from integration.together.covering import covering, pairs, parameters, singles
from integration.together.features import EXCLUSIVE, FEATURES
from integration.together.test_seed import CORE


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_every_combination_of_values_is_in_a_run(strength: int) -> None:
    values = parameters()
    rows = [tuple(next(name for name in reversed(some) if name in run or not name) for some in values)
            for run in covering(strength, 1)]  # fmt: skip
    for chosen in itertools.combinations(range(len(values)), strength):
        wanted = {*itertools.product(*(values[at] for at in chosen))}
        assert {tuple(row[at] for at in chosen) for row in rows} == wanted


def test_features_that_exclude_each_other_are_never_on_together() -> None:
    runs = [*covering(3, 1), *pairs()]
    assert all(len(run & group) <= 1 for run in runs for group in EXCLUSIVE)


def test_the_same_seed_gives_the_same_runs() -> None:
    assert covering(2, 7) == covering(2, 7)
    assert covering(2, 7) != covering(2, 8)


def test_all_pairs_are_run_but_those_of_features_that_exclude_each_other() -> None:
    count = len(FEATURES)
    assert len(pairs()) == len({*pairs()}) == count * (count - 1) // 2 - 4
    assert len(singles()) == count + 1


def test_the_runs_of_the_core_have_each_feature_on_and_off_and_four_of_five_pairs_on() -> None:
    assert (
        set(FEATURES) == {name for run in CORE for name in run} == {name for run in CORE for name in {*FEATURES} - run}
    )
    assert sum(any(pair <= run for run in CORE) for pair in pairs()) >= 0.8 * len(pairs())
