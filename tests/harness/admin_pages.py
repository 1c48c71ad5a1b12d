"""Pages of a sidecar's admin port, and of the other HTTP servers that a test starts."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: its status, and its body as text."""

    status: int
    text: str


def get(url: str, limit_s: float = 10) -> Page:
    """The page at ``url``, whatever its status. Raises OSError when nothing answers within ``limit_s`` seconds.

    An error page is closed like every other one: what only the garbage collector closes fails a later test.
    """
    try:
        with urllib.request.urlopen(url, timeout=limit_s) as answer:
            return Page(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Page(error.code, error.read().decode())
