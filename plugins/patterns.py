"""Patterns of names in a configuration: `*` matches any characters, `?` one, and all others themselves.

Upper and lower case differ. All patterns of the project are matched here, so they mean the same in each setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

MAX_COMPILED = 1024  # of the texts of a configuration, which clients do not choose
FEW = 30  # patterns, which one regular expression tries faster
_BEGINNING = re.compile(r"[^*?]*")
_ANY = "\0"  # in place of a star in a pattern that is matched itself: only another star covers it


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether one of these patterns covers a whole text.

    It takes time in proportion to the text's length times the pattern's at most: what a star has skipped is not tried
    again, whatever name a client sends.

    >>> covers = matcher(["orders-*", "order?", "[o]ther"])
    >>> covers("orders-eu"), covers("orders"), covers("other"), covers("[o]ther")
    (True, True, False, True)
    """
    every = tuple(patterns)
    if len(every) > FEW:
        first = first_matcher([every])
        return lambda text: first(text) is not None
    match = re.compile("|".join(map(_translate, every)) or r"(?!)", re.DOTALL).match
    return lambda text: match(text) is not None


def first_matcher(lists: Iterable[Iterable[str]]) -> Callable[[str], int | None]:
    """The number of the first list of patterns of which one covers a whole text, from 0.

    A text is compared only with patterns that begin as it does: thousands that differ there cost it nothing.

    >>> first = first_matcher([["orders-*"], ["payments", "*-eu"], ["*"]])
    >>> first("orders-eu"), first("users-eu"), first("users")
    (0, 1, 2)
    """
    return _Beginnings(lists).first


class _Beginnings:
    """Lists of patterns by what their patterns begin with."""

    def __init__(self, lists: Iterable[Iterable[str]]) -> None:
        self._whole: dict[str, int] = {}  # patterns without a wildcard, and the first list that has each
        self._open: dict[str, int] = {}  # the same for those that end in their only star, without it
        others: dict[str, list[tuple[int, str]]] = {}
        for number, patterns in enumerate(lists):
            for pattern in patterns:
                begins = _BEGINNING.match(pattern)[0]  # type: ignore[index] # it matches any text
                if begins == pattern:
                    self._whole.setdefault(pattern, number)
                elif not pattern[len(begins) :].strip("*"):
                    self._open.setdefault(begins, number)
                else:
                    others.setdefault(begins, []).append((number, pattern))
        self._others = {begins: _first_of(numbered) for begins, numbered in others.items()}
        self._lengths = sorted({len(begins) for begins in self._open.keys() | self._others.keys()})

    def first(self, text: str) -> int | None:
        found = [self._whole.get(text)]
        for length in self._lengths:
            if length > len(text):
                break
            begins = text[:length]
            found.append(self._open.get(begins))
            if (other := self._others.get(begins)) is not None:
                found.append(other(text))
        return min((number for number in found if number is not None), default=None)


def _first_of(numbered: list[tuple[int, str]]) -> Callable[[str], int | None]:
    match = re.compile("|".join(f"({_translate(pattern)})" for _, pattern in numbered), re.DOTALL).match

    def first(text: str) -> int | None:
        found = match(text)
        return numbered[found.lastindex - 1][0] if found is not None and found.lastindex is not None else None

    return first


def _translate(pattern: str, one: str = ".") -> str:
    """A regular expression; the parts between two stars are atomic: the first place of each is the one that counts."""
    first, *others = [re.escape(part).replace(r"\?", one) for part in re.split(r"\*+", pattern)]
    if not others:
        return rf"(?:{first}\Z)"
    *middle, last = others
    return rf"(?:{first}{''.join(f'(?>.*?{part})' for part in middle)}.*{last}\Z)"


def covers(wider: str, narrower: str) -> bool:
    """Whether a pattern matches all that another one matches.

    >>> covers("orders*", "orders-?"), covers("?", "*")
    (True, False)
    """
    covering = _translate(wider, one=f"[^{_ANY}]")
    return re.match(covering, narrower.replace("*", _ANY), re.DOTALL) is not None


def may_overlap(one: str, other: str) -> bool:
    """Whether some text is matched by both patterns.

    >>> may_overlap("orders*", "*.dlq"), may_overlap("orders", "*.dlq"), may_overlap("a?", "*bc")
    (True, False, False)
    """
    reached = {0}  # positions in `other` at which what was read of `one` may end
    for letter in one:
        if letter == "*":
            reached = set(range(min(reached), len(other) + 1)) if reached else reached
            continue
        after: set[int] = set()
        for at in _past_stars(reached, other):
            if at < len(other):
                if other[at] == "*":
                    after.add(at)
                elif letter == "?" or other[at] in ("?", letter):
                    after.add(at + 1)
        reached = after
    return len(other) in _past_stars(reached, other)


def _past_stars(reached: set[int], other: str) -> set[int]:
    """The same positions, and those after stars that match nothing."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(other) and other[at] == "*":
            at += 1
            found.add(at)
    return found


_compiled = lru_cache(MAX_COMPILED)(matcher)


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Whether one of these patterns, of a few settings, covers a whole text.

    >>> matches("app [prod]", ["app [*"]), matches("app p", ["app [prod]"])
    (True, False)
    """
    return _compiled(tuple(patterns))(text)
