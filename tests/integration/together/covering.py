"""Runs that have every combination of t columns, on and off: a covering design, the same for the same seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence

from integration.together.features import EXCLUSIVE, FEATURES, exclude_each_other

Run = frozenset[str]
Level = tuple[int, str]  # a parameter, and its value: the name of a feature, or empty
CANDIDATES = 40  # of each run the best of so many


def parameters() -> list[tuple[str, ...]]:
    """The values of each: off or a feature; those that exclude each other are one parameter's."""
    shared = [("", *(name for name in FEATURES if name in group)) for group in EXCLUSIVE]
    return [*shared, *(("", name) for name in FEATURES if not any(name in group for group in EXCLUSIVE))]


def pairs() -> list[Run]:
    """All pairs of features that can be on together."""
    both = itertools.combinations(FEATURES, 2)
    return [frozenset(pair) for pair in both if not exclude_each_other(*pair)]


def covering(strength: int, seed: int) -> list[Run]:
    """Runs in which each combination of values of ``strength`` parameters occurs."""
    values = parameters()
    missing = {combination for chosen in itertools.combinations(range(len(values)), strength)
               for combination in itertools.product(*[[(at, one) for one in values[at]] for at in chosen])}  # fmt: skip
    choose = random.Random(seed)
    runs = list[Run]()
    while missing:
        some = choose.sample(sorted(missing), min(CANDIDATES, len(missing)))
        rows = [_row(values, dict(combination), choose) for combination in some]
        best = max(rows, key=lambda row: len(_combinations(row, strength) & missing))
        missing -= _combinations(best, strength)
        runs.append(frozenset(name for _, name in best if name))
    return runs


def with_most_pairs(runs: Sequence[Run], count: int) -> list[Run]:
    """The ``count`` runs in which most pairs of features are on together, each pair counted once."""
    some, left = list[Run](), list(runs)
    missing = set(pairs())
    for _ in range(count):
        best = max(left, key=lambda run: sum(pair <= run for pair in missing))
        missing = {pair for pair in missing if not pair <= best}
        some.append(best)
        left.remove(best)
    return some


def _row(values: Sequence[Sequence[str]], wanted: Mapping[int, str], choose: random.Random) -> list[Level]:
    """A run with these values; the others are random."""
    return [(at, wanted[at] if at in wanted else choose.choice(some)) for at, some in enumerate(values)]


def _combinations(row: Iterable[Level], strength: int) -> set[tuple[Level, ...]]:
    return {*itertools.combinations(row, strength)}


def singles() -> list[Run]:
    """None, and each feature alone."""
    return [frozenset(), *(frozenset({name}) for name in FEATURES)]


def name_of(run: Run) -> str:
    """
    >>> name_of(frozenset({"slices", "json"})), name_of(frozenset())
    ('json+slices', 'none')
    """
    return "+".join(name for name in FEATURES if name in run) or "none"
