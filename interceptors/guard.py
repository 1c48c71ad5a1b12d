"""Calls of an interceptor's hooks: exceptions are caught and counted, durations measured, and an interceptor that fails
many times in a row is disabled for a while.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from kafka_sidecar.codec.checkpoint import StoppedError
from kafka_sidecar.interceptors.contract import Context, Hints, Interceptor
from kafka_sidecar.interceptors.metrics import Histogram
from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.patterns import matcher

T = TypeVar("T")
INTERCEPTOR = "interceptor"


class Place(Protocol):
    """The partition of the records that a hook is called for, whatever else the object is."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


class Report(Protocol):
    """Where failures of interceptors are reported to."""

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        """A hook raised, or returned something invalid."""

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None:
        """A call took longer than its budget."""

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: Client | None = None) -> None:
        """The interceptor is not called for ``pause_s``, for one client or for all."""


class ResolveRequired(Exception):  # noqa: N818 - not an error: call again after the interceptor has resolved the key
    """``interceptor.resolve(key)`` has to be awaited; then the batch is intercepted again."""

    def __init__(self, name: str, interceptor: Interceptor, key: object) -> None:
        super().__init__(name, key)
        self.name, self.interceptor, self.key = name, interceptor, key


QUICK_S = 1e-6  # a shorter call is counted with 0 us
MAX_CLIENTS = 1000  # whose failures are counted
CLIENTS_FOR_ALL = 3  # for whom an interceptor fails: then it is disabled for all
Client = tuple[str | None, str | None]  # its address and principal
RECORDS_PER_BUDGET = 1000  # a call for more records has a proportionally larger budget


@dataclass(frozen=True, slots=True)
class Limits:
    """When an interceptor counts as slow, and when it is disabled."""

    budget_s: float = 0.1  # of one call; a longer one counts as a failure, but its result is used
    failures: int = 100  # in a row, until it is disabled; 0: never
    pause_s: float = 60.0  # for which it is disabled; after that, one more failure disables it again


@dataclass(slots=True)
class Row:
    """The failures of an interceptor for one client."""

    failures: int = 0  # in a row
    until: float = 0.0  # by the clock, for which it is disabled


@dataclass(slots=True, weakref_slot=True, eq=False)
class Guard:
    """Calls one interceptor and keeps its counts."""

    name: str
    interceptor: Interceptor
    hints: Hints
    report: Report
    topics: tuple[str, ...] = ("*",)  # as configured; a topic must match the hints too
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.perf_counter
    failures: Counter[str] = field(default_factory=Counter)  # by hook
    over_budget: Counter[str] = field(default_factory=Counter)  # by hook
    calls: dict[str, Histogram] = field(default_factory=dict)  # by hook
    close: Callable[[], object] = lambda: None  # closes the interceptor, once
    disabled_until: float = 0.0  # by the clock; 0: enabled
    failed_in_a_row: int = 0  # for any client
    rows: dict[Client | None, Row] = field(default_factory=dict)  # of clients for whom it has failed
    _covers: tuple[Callable[[str], bool], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._covers = matcher(self.topics), matcher(self.hints.topics)

    def applies_to(self, topic: str) -> bool:
        """Whether the interceptor is called for a topic."""
        return all(covers(topic) for covers in self._covers)

    @property
    def is_disabled(self) -> bool:
        """Whether the interceptor is disabled now, for some client at least."""
        now = self.clock()
        return (bool(self.disabled_until) and now < self.disabled_until) or any(
            now < row.until for row in list(self.rows.values())
        )

    def is_off(self, context: Context | None) -> bool:
        """Whether it is disabled for a client, or for all."""
        now, row = self.clock(), self.rows.get(_client_of(context))
        return now < self.disabled_until or (row is not None and now < row.until)

    @calls_plug_in(lambda of: Call(INTERCEPTOR, of["self"].name, of["hook"], _topic_of(of["place"])))
    def call(
        self, hook: str, function: Callable[..., T], *args: Any, records: int = 1, place: Place | None = None
    ) -> T | None:
        """The result of ``function``; None if it failed or the interceptor is disabled.

        ``hook`` is the name to count it by, ``records`` how many records the call is for: the budget grows with them.
        """
        clock = self.clock
        if self.rows and self.is_off(_context_of(place, args)):
            return None
        began = clock()
        try:
            result = function(*args)
        except (StoppedError, ResolveRequired):
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit and the panic of a library in Rust are failures too
            self.failed(hook, error, place, _context_of(place, args))
            return None
        took_s = clock() - began
        if took_s > self.limits.budget_s or self.failed_in_a_row:
            self.succeeded(hook, took_s, records, place, _context_of(place, args))
        else:
            self.histogram(hook).add(int(took_s * 1e6))
        return result

    def succeeded(
        self, hook: str, took_s: float, records: int = 1, place: Place | None = None, context: Context | None = None
    ) -> None:
        """Count a call that returned after ``took_s``."""
        self.histogram(hook).add(int(took_s * 1e6))
        budget_s = self.limits.budget_s
        if took_s > budget_s and took_s > budget_s * records / RECORDS_PER_BUDGET:
            self.over_budget[hook] += 1
            self.report.slow(self.name, hook, took_s, place)
            self._count_failure(context)
        elif self.failed_in_a_row:
            self.rows.pop(_client_of(context), None)
            self.disabled_until, self.failed_in_a_row = 0.0, len(self.rows)

    def histogram(self, hook: str) -> Histogram:
        """The durations of a hook's calls."""
        calls = self.calls.get(hook)
        if calls is None:
            calls = self.calls[hook] = Histogram()
        return calls

    def failed(
        self, hook: str, error: BaseException, place: Place | None = None, context: Context | None = None
    ) -> None:
        """Count a call that raised, or returned something invalid."""
        self.failures[hook] += 1
        self.report.failed(self.name, hook, error, place)
        if not isinstance(error, UnicodeError):  # bytes of a client that are no text: it may send them all the time
            self._count_failure(context)

    def _count_failure(self, context: Context | None) -> None:
        """One client alone disables an interceptor for itself, not for others."""
        client, limits = _client_of(context), self.limits
        if client not in self.rows and len(self.rows) >= MAX_CLIENTS:
            self.rows.pop(next(iter(self.rows)), None)
        row = self.rows.setdefault(client, Row())
        row.failures += 1
        self.failed_in_a_row = max(self.failed_in_a_row, row.failures)
        if not 0 < limits.failures <= row.failures or self.hints.fail_closed:
            return
        now = self.clock()
        row.until = now + limits.pause_s
        are_off = sum(now < one.until for one in list(self.rows.values()))
        if client is None or are_off >= CLIENTS_FOR_ALL:
            self.disabled_until, client = row.until, None
        self.report.disabled(self.name, row.failures, limits.pause_s, client)


def _context_of(place: Place | None, args: tuple[Any, ...]) -> Context | None:
    """The client that a call is for, if that is known."""
    return getattr(place, "context", None) or getattr(args[0] if args else None, "context", None)


class RecordCalls:
    """Calls of one hook for each record of a batch, at a third of what `Guard.call` costs.

    Most such calls take less time than counting them would: those under a microsecond are counted together at the end.
    """

    __slots__ = ("_check", "_clock", "_context", "_function", "_guard", "_hook", "_place", "_quick", "_quick_s")

    def __init__(
        self, guard: Guard, hook: str, function: Callable[[T], T], check: Callable[[T, T], None], place: Place | None
    ) -> None:
        self._guard = guard
        self._hook = hook
        self._function: Callable[[Any], Any] = function
        self._check: Callable[[Any, Any], None] = check  # raises if the result is invalid
        self._place = place
        self._context: Context | None = getattr(place, "context", None)
        self._clock = guard.clock
        self._quick_s = min(QUICK_S, guard.limits.budget_s)
        self._quick = 0

    @calls_plug_in(lambda of: Call(INTERCEPTOR, of["self"]._guard.name, of["self"]._hook, _topic_of(of["self"]._place)))
    def call(self, record: T) -> T | None:
        """The result of the hook; None if it failed or the interceptor is disabled."""
        guard, clock = self._guard, self._clock
        if guard.rows and guard.is_off(self._context):
            return None
        began = clock()
        try:
            result: T = self._function(record)
            if result is not record:
                self._check(result, record)
        except StoppedError:
            raise
        except BaseException as error:  # noqa: BLE001 - as in Guard.call
            guard.failed(self._hook, error, self._place, self._context)
            return None
        took_s = clock() - began
        if took_s < self._quick_s and not guard.failed_in_a_row:
            self._quick += 1
        else:
            guard.succeeded(self._hook, took_s, place=self._place, context=self._context)
        return result

    def end(self) -> None:
        """Count the calls that are not counted yet."""
        if self._quick:
            self._guard.histogram(self._hook).add(0, self._quick)


@dataclass(frozen=True, slots=True)
class GuardGroup:
    """Consecutive guards whose interceptors are called in the same form."""

    guards: tuple[Guard, ...]
    # Each guard with its hook for whole batches; empty: they are called record by record.
    batch_hooks: tuple[tuple[Guard, Callable[..., Any]], ...] = ()

    @property
    def by_batch(self) -> bool:
        return bool(self.batch_hooks)


def group_guards(guards: Iterable[Guard], base: type, batch_hook: str, *hooks: str) -> tuple[GuardGroup, ...]:
    """The guards whose interceptors extend ``base`` and have ``batch_hook`` or override one of ``hooks``, in groups of
    consecutive guards by the form in which they are called: whole batch, or record by record."""
    called: list[tuple[Guard, bool]] = []
    for guard in guards:
        one = guard.interceptor
        whole = hasattr(one, batch_hook)
        if isinstance(one, base) and (whole or any(has_override(one, base, hook) for hook in hooks)):
            called.append((guard, whole))
    groups = []
    for whole, group in groupby(called, itemgetter(1)):
        own = tuple(guard for guard, _ in group)
        groups.append(GuardGroup(own, tuple((one, getattr(one.interceptor, batch_hook)) for one in own if whole)))
    return tuple(groups)


def _client_of(context: Context | None) -> Client | None:
    """None where it is not known: that counts for all."""
    return (context.host, context.principal) if context is not None and (context.host or context.principal) else None


def _topic_of(place: Place | None) -> str | None:
    return place.topic if place is not None else None


def has_override(interceptor: object, base: type, hook: str) -> bool:
    """Whether the interceptor's class overrides a hook of ``base``."""
    return getattr(type(interceptor), hook, None) is not getattr(base, hook, None)
