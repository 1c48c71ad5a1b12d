"""Needs of code that only decides, as plain values: a turn of the event loop, work in a thread; others add their own.

Such code is a generator of `Steps`: it yields one `Need` after the other, and gets back its result or what it raised.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Need:
    """What an exchange cannot do itself. The direction that it belongs to is paused until the result is there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The time that a stage may take for one request or response: a setting, which all of them have in common.

    No need takes it: each request begins with a `TimeLeft` of its own, or what one uses up would be missing to all.
    """

    stage: str  # a label value of kafka_sidecar_time_limits_total
    work_s: float  # for work in threads, and for what policies fetch
    wait_s: float  # for a thread

    def start(self) -> TimeLeft:
        """All of it, for one request."""
        return TimeLeft(self.stage, self.work_s, self.wait_s)


@dataclass(slots=True)
class TimeLeft:
    """What is left of a `TimeLimit` for one request.

    Whoever performs its needs takes off what these have taken. Where nothing is left, TimeoutError is raised in the
    exchange, also while the work itself cannot be stopped.
    """

    stage: str
    work_s: float
    wait_s: float


@dataclass(frozen=True, slots=True)
class Turn(Need):
    """Let other connections have a turn, if this one and all others have used up the loop's budget."""


TURN = Turn()


@dataclass(frozen=True, slots=True)
class Work(Need):
    """Call ``run`` in a thread; its result is the answer, what it raises is raised in the exchange.

    ``run`` changes nothing that the exchange uses: after a TimeoutError it may still be running. The work of a
    direction is done in order and one at a time; all work that must run belongs to the responses.
    """

    run: Callable[[], Any]
    must_run: bool = False  # even if the connection ends before a thread is free
    is_light: bool = False  # it never waits until long work of other connections has ended
    goes_on: bool = False  # with what work before it has inflated, which is memory while it waits: it is next
    limit: TimeLeft | None = None


# The number of the connection for which something is fetched: those who share a fetcher get turns by it.
asker: ContextVar[int | None] = ContextVar("asker", default=None)
Steps = Generator[Need, Any, T_co]


class Unresolved(Exception):  # noqa: N818 - not an error: the plug-in cannot decide yet
    """The plug-in needs something that has to be fetched, such as a schema; its ``resolve(key)`` fetches it."""

    def __init__(self, key: object) -> None:
        super().__init__(key)
        hash(key)  # equal keys share one fetch: raises TypeError here, in the plug-in's code, if it is not hashable
        self.key = key
