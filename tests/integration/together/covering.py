"""Runs that have every combination of t columns, on and off: a covering design, the same for the same seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

from integration.together.features import EXCLUSIVE, FEATURES

Run = frozenset[str]
Level = tuple[int, str]  # a parameter, and its value: the name of a feature, or empty
CANDIDATES = 60  # of each run the best of so many


def parameters() -> list[tuple[str, ...]]:
    """The values of each: off or a feature; those that exclude each other are one parameter's."""
    shared = ("", *(name for name in FEATURES if name in EXCLUSIVE))
    return [shared, *(("", name) for name in FEATURES if name not in EXCLUSIVE)]


def pairs() -> list[Run]:
    """All pairs of features that can be on together."""
    both = itertools.combinations(FEATURES, 2)
    return [frozenset(pair) for pair in both if not {*pair} <= EXCLUSIVE]


def covering(strength: int, seed: int) -> list[Run]:
    """Runs in which each combination of values of ``strength`` parameters occurs."""
    values = parameters()
    missing = {combination for chosen in itertools.combinations(range(len(values)), strength)
               for combination in itertools.product(*[[(at, one) for one in values[at]] for at in chosen])}  # fmt: skip
    choose = random.Random(seed)
    runs = list[Run]()
    while missing:
        best = max((_candidate(values, missing, strength, choose) for _ in range(CANDIDATES)), key=lambda one: one[0])
        missing -= _combinations(best[1], strength)
        runs.append(frozenset(name for _, name in best[1] if name))
    return runs


def _candidate(
    values: Sequence[Sequence[str]], missing: Iterable[tuple[Level, ...]], strength: int, choose: random.Random
) -> tuple[int, list[Level]]:
    """A run that has one of the missing combinations and is otherwise random, and how many it has."""
    pool = missing if isinstance(missing, set) else {*missing}
    wanted = dict(choose.choice(sorted(pool)))
    row = [(at, wanted.get(at, choose.choice(list(values[at])))) for at in range(len(values))]
    return len(_combinations(row, strength) & pool), row


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
