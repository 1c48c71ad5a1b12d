"""Regular expressions whose time grows with their input and no faster: RE2 (docs/decisions/0008-cel.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

import re2
from pydantic import AfterValidator

from kafka_sidecar.plugins.settings import quote

Matches = Callable[[bytes], object]  # truthy where the pattern fits
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # they are raised
_OPTIONS.max_mem = 1 << 20  # bytes that one pattern may take
_OPTIONS.never_capture = True  # nobody asks for groups


@lru_cache(256)
def compile_pattern(pattern: str) -> Matches:
    """A test whether a pattern fits all of some bytes, which are taken for UTF-8; what is none fits no ``.``.

    >>> fits = compile_pattern("[a-z]+-[0-9]+")
    >>> bool(fits(b"orders-17")), bool(fits(b"orders-17 and more"))
    (True, False)

    Raises:
        ValueError: it is no pattern of RE2.
    """
    try:
        matches: Matches = re2.compile(pattern, _OPTIONS).fullmatch
    except re2.error as error:
        told = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{quote(pattern)} is no regular expression of RE2: {told}; RE2 has no look-around") from error
    return matches


def _validate_pattern(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


Pattern = Annotated[str, AfterValidator(_validate_pattern)]
