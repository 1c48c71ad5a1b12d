"""What may have been meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_COMPARED_CHARS = 100


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that ends with a blank; nothing if no known name is like this one.

    >>> did_you_mean("tmie", ["size", "time"])
    'did you mean time? '
    >>> did_you_mean("Enforce", ["shadow", "enforce"])
    'did you mean enforce? '
    >>> did_you_mean("x", ["size", "time"])
    ''
    """
    names = list(known)
    short = name[:MAX_COMPARED_CHARS]
    by_lower = {one.lower(): one for one in names}
    nearest = get_close_matches(short, names, n=1) or [
        by_lower[one] for one in get_close_matches(short.lower(), by_lower, n=1)
    ]
    return f"did you mean {nearest[0]}? " if nearest else ""
