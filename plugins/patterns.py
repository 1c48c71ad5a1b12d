"""Patterns of names in a configuration: `*` stands for any characters, `?` for one, all others for themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern covers a whole text, in time that grows with its length alone.

    >>> matches("orders-*", "orders-eu"), matches("order?", "orders"), matches("[o]rders", "orders")
    (True, True, False)
    """
    return _compiled(pattern)(text) is not None


@lru_cache(4096)  # fnmatch's own is smaller than some lists of rules
def _compiled(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern.replace("[", "[[]"))).match
