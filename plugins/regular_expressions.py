"""Regular expressions that run in linear time: RE2 (docs/decisions/0008-cel.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

import re2
from pydantic import AfterValidator

from kafka_sidecar.plugins.settings import quote

Matches = Callable[[bytes], object]  # truthy if the pattern matches
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # they are raised
_OPTIONS.max_mem = 1 << 20  # bytes for one pattern
_OPTIONS.never_capture = True  # groups are not used


@lru_cache(256)
def compile_pattern(pattern: str) -> Matches:
    """A function that says whether a pattern matches all of some bytes, read as UTF-8; ``.`` matches no invalid byte.

    >>> matches = compile_pattern("[a-z]+-[0-9]+")
    >>> bool(matches(b"orders-17")), bool(matches(b"orders-17 and more"))
    (True, False)

    Raises:
        ValueError: the pattern is not valid in RE2.
    """
    try:
        matches: Matches = re2.compile(pattern, _OPTIONS).fullmatch
    except re2.error as error:
        detail = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{quote(pattern)} is not valid in RE2: {detail}; RE2 has no look-around") from error
    return matches


def _validate_pattern(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


Pattern = Annotated[str, AfterValidator(_validate_pattern)]
