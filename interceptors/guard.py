"""One interceptor at work: whatever it raises is caught and counted, its time is measured, and one that fails again and
again is left out for a while.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from kafka_sidecar.interceptors.contract import Hints, Interceptor
from kafka_sidecar.interceptors.metrics import Histogram

T = TypeVar("T")


class Report(Protocol):
    """Is told what an operator should know."""

    def failed(self, interceptor: str, hook: str, error: BaseException) -> None:
        """It raised, or gave back what it must not."""

    def slow(self, interceptor: str, hook: str, seconds: float) -> None:
        """A call took longer than it may."""

    def disabled(self, interceptor: str, failures: int, pause_s: float) -> None:
        """It is not called for a while."""


RECORDS_PER_BUDGET = 1000  # a call about more of them may take longer accordingly


@dataclass(frozen=True, slots=True)
class Limits:
    """What an interceptor may cost."""

    budget_s: float = 0.1  # of one call; a longer one counts as a failure, but what it gave back is used
    failures: int = 100  # in a row, until it is taken out; 0: never
    pause_s: float = 60.0  # how long; then one more failure is enough


@dataclass(slots=True, weakref_slot=True, eq=False)
class Guard:
    """Calls one interceptor."""

    name: str
    interceptor: Interceptor
    hints: Hints
    report: Report
    topics: tuple[str, ...] = ("*",)  # as configured; those of the hints must fit too
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.perf_counter
    failures: Counter[str] = field(default_factory=Counter)  # by hook
    over_budget: Counter[str] = field(default_factory=Counter)  # by hook
    calls: dict[str, Histogram] = field(default_factory=dict)  # by hook
    close: Callable[[], object] = lambda: None  # closes the interceptor, once
    disabled_until: float = 0.0  # by the clock; 0: it takes part
    _in_a_row: int = 0

    def applies_to(self, topic: str) -> bool:
        """Whether it has to do with a topic."""
        return all(any(fnmatchcase(topic, name) for name in names) for names in (self.topics, self.hints.topics))

    @property
    def is_disabled(self) -> bool:
        """Whether it is left out now."""
        return bool(self.disabled_until) and self.clock() < self.disabled_until

    def call(self, hook: str, function: Callable[..., T], *args: Any, records: int = 1) -> T | None:
        """What the interceptor answers; None where it failed, or is left out. A call may be about many ``records``."""
        if self.is_disabled:
            return None
        began = self.clock()
        try:
            answer = function(*args)
        except BaseException as error:  # noqa: BLE001 - SystemExit, or the panic of a library in Rust, is a failure too
            self.failed(hook, error)
            return None
        took = self.clock() - began
        calls = self.calls.get(hook)
        if calls is None:
            calls = self.calls[hook] = Histogram()
        calls.add(int(took * 1e6))
        if took > self.limits.budget_s * max(1.0, records / RECORDS_PER_BUDGET):
            self.over_budget[hook] += 1
            self.report.slow(self.name, hook, took)
            self._count_failure()
        elif self._in_a_row:
            self._in_a_row, self.disabled_until = 0, 0.0
        return answer

    def failed(self, hook: str, error: BaseException) -> None:
        """It raised, or gave back what it must not."""
        self.failures[hook] += 1
        self.report.failed(self.name, hook, error)
        self._count_failure()

    def _count_failure(self) -> None:
        self._in_a_row += 1
        if 0 < self.limits.failures <= self._in_a_row and not self.hints.fail_closed:
            self.disabled_until = self.clock() + self.limits.pause_s
            self.report.disabled(self.name, self._in_a_row, self.limits.pause_s)


@dataclass(frozen=True, slots=True)
class GuardGroup:
    """Some that follow each other and are asked in the same form."""

    guards: tuple[Guard, ...]
    batch_hook: str | None  # the hook that takes a batch as a whole; None: record by record

    @property
    def by_batch(self) -> bool:
        return self.batch_hook is not None

    def hook(self, guard: Guard) -> Callable[..., Any]:
        hook: Callable[..., Any] = getattr(guard.interceptor, self.batch_hook or "")
        return hook


def group_guards(guards: Iterable[Guard], base: type, batch_hook: str, *hooks: str) -> tuple[GuardGroup, ...]:
    """Those that have the hook that takes batches, or override one of ``base``, by the form in which they are asked."""
    asked: list[tuple[Guard, bool]] = []
    for guard in guards:
        one = guard.interceptor
        whole = hasattr(one, batch_hook)
        if isinstance(one, base) and (whole or any(has_override(one, base, hook) for hook in hooks)):
            asked.append((guard, whole))
    return tuple(
        GuardGroup(tuple(guard for guard, _ in run), batch_hook if whole else None)
        for whole, run in groupby(asked, itemgetter(1))
    )


def has_override(interceptor: object, base: type, hook: str) -> bool:
    """Whether its class has a hook of its own in place of the base's, which does nothing."""
    return getattr(type(interceptor), hook, None) is not getattr(base, hook, None)
