"""Log lines of one kind come seldom: what is left out between two of them is counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

MOST_KINDS = 1000


class LogLimiter:
    """When a line of some kind is due again."""

    def __init__(self, every_s: float, clock: Callable[[], float]) -> None:
        self._every_s = every_s
        self._clock = clock  # seconds
        self._logged: dict[tuple[str, ...], tuple[float, int]] = {}

    def due(self, kind: tuple[str, ...]) -> int | None:
        """How many lines of this kind were left out since the last one; None: this one is left out too."""
        now = self._clock()
        last, left_out = self._logged.get(kind, (float("-inf"), 0))
        if now - last < self._every_s:
            self._logged[kind] = (last, left_out + 1)
            return None
        if len(self._logged) >= MOST_KINDS:
            self._logged.clear()
        self._logged[kind] = (now, 0)
        return left_out


class Redacted(Exception):  # noqa: N818 - stands in a traceback for an error, of which it has the name
    """The text of an error is not logged."""


ExcInfo = BaseException | tuple[type[BaseException], BaseException, TracebackType | None]


def redact(log: logging.Logger, error: BaseException) -> ExcInfo:
    """Where an error was raised, and of which kind, for ``exc_info``.

    Its text only where the log is at debug: it may quote a record, as that of ``int(record.value)`` does.
    """
    if log.isEnabledFor(logging.DEBUG):
        return error
    return type(error), Redacted(type(error).__name__), error.__traceback__
