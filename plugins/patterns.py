"""Patterns of names in a configuration: `*` matches any characters, `?` one, and all others themselves.

Upper and lower case differ. All patterns of the project are matched here, so they mean the same in each setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

MAX_COMPILED = 1024  # of the texts of a configuration, which clients do not choose
_ANY = "\0"  # in place of a star in a pattern that is matched itself: only another star covers it


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether one of these patterns covers a whole text.

    It takes time in proportion to the text's length times the pattern's at most: what a star has skipped is not tried
    again, whatever name a client sends.

    >>> covers = matcher(["orders-*", "order?", "[o]ther"])
    >>> covers("orders-eu"), covers("orders"), covers("other"), covers("[o]ther")
    (True, True, False, True)
    """
    match = re.compile("|".join(map(_translate, patterns)) or r"(?!)", re.DOTALL).match
    return lambda text: match(text) is not None


def first_matcher(lists: Iterable[Iterable[str]]) -> Callable[[str], int | None]:
    """The number of the first list of patterns of which one covers a whole text, from 0.

    >>> first = first_matcher([["orders-*"], ["payments", "*-eu"], ["*"]])
    >>> first("orders-eu"), first("users-eu"), first("users")
    (0, 1, 2)
    """
    match = re.compile("|".join(f"({'|'.join(map(_translate, one)) or '(?!)'})" for one in lists), re.DOTALL).match

    def first(text: str) -> int | None:
        found = match(text)
        return found.lastindex - 1 if found is not None and found.lastindex is not None else None

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


_compiled = lru_cache(MAX_COMPILED)(matcher)


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Whether one of these patterns, of a few settings, covers a whole text.

    >>> matches("app [prod]", ["app [*"]), matches("app p", ["app [prod]"])
    (True, False)
    """
    return _compiled(tuple(patterns))(text)
