"""Loops over many records can be stopped from outside: at checkpoints they look at a flag that their caller has set.

A checkpoint is also where a compiled loop lets other threads run: it is a call of a function in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ITERATED = 127  # records between two checkpoints where each goes to Python code, as a mask
COMPILED = 4095  # where a compiled loop reads them
MAX_BYTES = 1 << 20  # that a compiled loop reads between two checkpoints


class StoppedError(BaseException):
    """The result is no longer needed. Not an Exception: plug-ins must not catch it by accident."""


class ThreadRequiredError(Exception):
    """What was asked would hold up the event loop, and is to be asked again in a thread."""


class Stop:
    """Once ``is_set`` is true, loops end at their next checkpoint with `StoppedError`. Threads may share it."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


_current: ContextVar[Stop | None] = ContextVar("stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """All loops that run inside look at ``stop``."""
    before = _current.set(stop)
    try:
        yield
    finally:
        _current.reset(before)


def checkpoint() -> None:
    """Raises StoppedError if the caller is to stop."""
    stop = _current.get()
    if stop is not None and stop.is_set:
        raise StoppedError
