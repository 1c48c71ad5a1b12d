"""Patterns of names in a configuration: `*` matches any characters, `?` one, and all others themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether one of these patterns covers a whole text, in time that grows with its length alone.

    >>> covers = matcher(["orders-*", "order?", "[o]ther"])
    >>> covers("orders-eu"), covers("orders"), covers("other"), covers("[o]ther")
    (True, True, False, True)
    """
    parts = [translate(pattern.replace("[", "[[]")) for pattern in patterns]
    match = re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)").match
    return lambda text: match(text) is not None


_compiled = lru_cache(maxsize=64)(matcher)


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Whether one of these patterns, of a few settings, covers a whole text.

    >>> matches("app [prod]", ["app [*"]), matches("app p", ["app [prod]"])
    (True, False)
    """
    return _compiled(tuple(patterns))(text)
