"""What well-formed JSON may hold all the same that readers do not agree about: a key twice, numbers too big.

Both questions are for texts that `syntax.fault` has passed. They cost some twenty times what it does, because they
read keys and numbers.
"""

from __future__ import annotations

import json
from math import isinf
from typing import Any

_EXACT = 2**53 - 1  # the largest integer that a double, and so every reader, keeps (RFC 8259 section 6)


class _DuplicateKeyError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _DuplicateKeyError


_KEYS = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)


def has_duplicate_key(text: bytes) -> bool:
    """Whether an object has a key twice, however it is escaped. Readers keep the last, the first or refuse."""
    try:
        _KEYS.decode(text.decode())
    except _DuplicateKeyError:
        return True
    return False


def has_big_number(text: bytes) -> bool:
    """Whether there is a number that readers with doubles cannot keep.

    An integer, written without fraction and exponent, beyond 2**53 - 1; or any number that is infinite as a double.
    """
    integers: list[str] = []
    reals: list[str] = []
    json.JSONDecoder(parse_int=integers.append, parse_float=reals.append).decode(text.decode())
    return any(map(_is_inexact, integers)) or any(isinf(float(real)) for real in reals)


def _is_inexact(digits: str) -> bool:
    return len(digits) > len(str(-_EXACT)) or abs(int(digits)) > _EXACT
