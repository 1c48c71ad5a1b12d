"""How many examples a test takes: a share of them, or in `make test-all` each; and tests that take many of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar
from zlib import crc32

from hypothesis import settings

T = TypeVar("T")
TAKES_ALL = settings().max_examples >= 100  # by the Hypothesis profile
TAKES_FEW = settings().max_examples < 30  # to see which lines run, which takes ten times as long

FEW = 5  # of the examples of a parametrised test, where few are taken


def few_of_each(names: Iterable[str], most: int = FEW) -> set[str]:
    """So many examples of each test, by names as pytest has them: always the same ones, spread over all arguments."""
    tests = defaultdict(list)
    for name in names:
        tests[name.partition("[")[0]].append(name)
    return {name for of in tests.values() for name in sorted(of, key=lambda one: crc32(one.encode()))[:most]}


def some(examples: Iterable[T], of: int, at: int = 0) -> list[T]:
    """One of ``of`` examples, of which ``at`` says which; all of them where all are taken."""
    return list(examples) if TAKES_ALL else list(islice(examples, at % of, None, of))


def sparse(examples: Iterable[T], of: int) -> list[T]:
    """All examples; where few are taken, one of ``of`` and the first: for tests whose compiled run takes them all."""
    return list(islice(examples, 0, None, of)) if TAKES_FEW else list(examples)


def rounds(most: int) -> int:
    """How often a test repeats itself with other random values."""
    return most if TAKES_ALL else 1 if TAKES_FEW else max(2, most // 4)


def for_each(
    examples: Iterable[T], name: Callable[[T], object] = str
) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """One test of many examples, each of which would cost more as a test than it does; a note says which has failed."""

    def decorate(test: Callable[[T], None]) -> Callable[[], None]:
        def takes_all() -> None:
            for example in examples:
                try:
                    test(example)
                except BaseException as error:
                    error.add_note(f"example: {name(example)}")
                    raise

        # Not functools.wraps: pytest would look for a fixture with the name of the argument.
        takes_all.__name__, takes_all.__doc__, takes_all.__module__ = test.__name__, test.__doc__, test.__module__
        return takes_all

    return decorate
