"""The interceptors of one configuration, in order, and those of each topic."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints, Interceptor, ProducerInterceptor
from kafka_sidecar.interceptors.guard import Guard, Limits, Report
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.class_path import FileState, code_state, file_state
from kafka_sidecar.plugins.values import MAX_COMMIT_METADATA

MAX_CACHED_TOPICS = 10_000  # clients choose the names


@dataclass(frozen=True, slots=True)
class InterceptorSettings:
    """One interceptor, as configured in the file."""

    type: str  # name of a built-in or an entry point, or module:Class
    name: str  # a label value of metrics
    topics: tuple[str, ...] = ("*",)
    class_path: str | None = None  # folders, zips and wheels, separated by ":"
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, Any] = field(default_factory=dict)  # for configure()

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """What hardly any two have in common."""
        return self.type, self.name, self.topics


class _Opened(NamedTuple):
    """An interceptor, and what it was loaded from."""

    settings: InterceptorSettings
    code: frozenset[FileState] | None
    files: frozenset[FileState]  # that it has read itself
    guard: Guard

    def is_of(self, settings: InterceptorSettings, code: frozenset[FileState] | None) -> bool:
        """Whether it would be the same again."""
        return (self.settings, self.code) == (settings, code) and self.files == _files_of(self.guard)


class InterceptorCatalog:
    """Configured interceptors, in order."""

    def __init__(
        self,
        settings: Sequence[InterceptorSettings],
        report: Report,
        max_metadata: int = MAX_COMMIT_METADATA,
        previous: InterceptorCatalog | None = None,
    ) -> None:
        """Load and configure everything that the configuration names.

        Interceptors of the ``previous`` catalog are kept, with their state, if neither their settings, the code on
        their class path nor the files that they have read have changed.

        Raises:
            ValueError: a class or a setting is invalid; one line with the interceptor's name and the remedy.
        """
        known: dict[tuple[str, str, tuple[str, ...]], list[_Opened]] = {}
        for one in previous._opened if previous is not None else ():
            known.setdefault(one.settings.key, []).append(one)
        self._opened: list[_Opened] = []
        for setting in settings:
            code = _code_of(setting)
            alike = known.get(setting.key, [])
            same = next((one for one in alike if one.is_of(setting, code)), None)
            if same is not None:
                alike.remove(same)
                self._opened.append(same)
            else:
                guard = _open(setting, report)
                self._opened.append(_Opened(setting, code, _files_of(guard), guard))
        self.guards = tuple(one.guard for one in self._opened)
        self._producers = _PerTopic(tuple(self._of(ProducerInterceptor)), Producers)
        self._consumers = _PerTopic(tuple(self._of(ConsumerInterceptor)), Consumers)
        self.committers = Committers(tuple(self._of(ConsumerInterceptor)), max_metadata)
        # Whether there are interceptors for any topic: of producers, of consumers, with fail_closed, of commits.
        self.intercept_producers = bool(self._producers.guards)
        consumers = Consumers(self._consumers.guards)
        self.intercept_consumers, self.fail_closed = consumers.needs_records, consumers.fail_closed
        self.intercept_commits = bool(self.committers.pre_commit_guards or self.committers.on_commit_guards)

    def producers(self, topic: str) -> Producers | None:
        """The interceptors of a topic's producers; None if there are none with a hook to call."""
        found = self._producers.of(topic)
        return found if found is not None and (found.needs_records or found.wants_acknowledgements) else None

    def consumers(self, topic: str) -> Consumers | None:
        """The interceptors of a topic's consumers; None if there are none with a hook for records."""
        found = self._consumers.of(topic)
        return found if found is not None and found.needs_records else None

    @property
    def opened(self) -> list[tuple[InterceptorSettings, Guard]]:
        """Each interceptor with its settings, in order."""
        return [(one.settings, one.guard) for one in self._opened]

    def _of(self, kind: type[Interceptor]) -> Iterator[Guard]:
        return (guard for guard in self.guards if isinstance(guard.interceptor, kind))


T = TypeVar("T", Producers, Consumers)


class _PerTopic(Generic[T]):
    """The interceptors of each topic, cached."""

    def __init__(self, guards: tuple[Guard, ...], kind: type[T]) -> None:
        self.guards = guards
        self._kind: type[T] = kind
        self._found: dict[str, T | None] = {}

    def of(self, topic: str) -> T | None:
        found = self._found  # another thread may replace the attribute
        if topic not in found:
            if not is_topic_name(topic):
                return None  # brokers reject it
            if len(found) >= MAX_CACHED_TOPICS:
                self._found = found = {}
            own = tuple(guard for guard in self.guards if guard.applies_to(topic))
            found[topic] = self._kind(own) if own else None
        return found[topic]


def _code_of(setting: InterceptorSettings) -> frozenset[FileState] | None:
    """The code on the interceptor's class path; None if the path is invalid, which `_open` raises."""
    try:
        return code_state(setting.class_path)
    except ValueError:
        return None


def _files_of(guard: Guard) -> frozenset[FileState]:
    return file_state(guard.interceptor.files())


def _open(setting: InterceptorSettings, report: Report) -> Guard:
    interceptor, hints = INTERCEPTORS.open(setting.name, setting.type, setting.class_path, setting.settings)
    if fault := _find_fault(interceptor, hints):
        raise ValueError(f"interceptor {setting.name}: {setting.type}: {fault}")
    guard = Guard(setting.name, interceptor, hints, report, setting.topics, setting.limits)
    # Called when the last request that uses the guard has ended, or at the end of the program.
    guard.close = weakref.finalize(guard, _close, setting.name, interceptor, report)
    return guard


def _close(name: str, interceptor: Interceptor, report: Report) -> None:
    try:
        interceptor.close()
    except BaseException as error:  # noqa: BLE001 - a failure must not affect others
        report.failed(name, "close", error)


def _find_fault(interceptor: Interceptor, hints: object) -> str | None:
    """A fault that would otherwise appear only with the first record, or never."""
    if not isinstance(interceptor, ProducerInterceptor | ConsumerInterceptor):
        return "is neither a ProducerInterceptor nor a ConsumerInterceptor"
    if not isinstance(hints, Hints):
        return "hints() did not return Hints"
    if not isinstance(hints.topics, tuple | list) or not all(isinstance(name, str) for name in hints.topics):
        return 'hints(): topics must be a tuple of names, such as ("orders-*",)'
    return None
