"""Contents of well-formed JSON that parsers treat differently: duplicate keys, numbers beyond a double.

Both functions are for texts in which `syntax.find_fault` has found none. They take about twenty times as long, because
they parse keys and numbers.
"""

from __future__ import annotations

import json
from math import isinf
from typing import Any

_EXACT = 2**53 - 1  # the largest integer that every parser keeps (RFC 8259 section 6)


class _DuplicateKeyError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _DuplicateKeyError


_KEYS = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)


def has_duplicate_key(text: bytes) -> bool:
    """Whether an object has a duplicate key, however it is escaped. Parsers keep the last, the first, or fail."""
    try:
        _KEYS.decode(text.decode())
    except _DuplicateKeyError:
        return True
    return False


def has_big_number(text: bytes) -> bool:
    """Whether there is a number that a double cannot hold.

    An integer, written without fraction and exponent, beyond 2**53 - 1; or any number that is infinite as a double.
    """
    integers: list[str] = []
    reals: list[str] = []
    json.JSONDecoder(parse_int=integers.append, parse_float=reals.append).decode(text.decode())
    return any(map(_is_inexact, integers)) or any(isinf(float(real)) for real in reals)


def _is_inexact(digits: str) -> bool:
    return len(digits) > len(str(-_EXACT)) or abs(int(digits)) > _EXACT
