"""A clock that tests set."""

from __future__ import annotations


class Clock:
    """Milliseconds since 1970."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now
