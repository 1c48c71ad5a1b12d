"""Fixtures for interceptors: real batches, a context with a fixed clock, and a report that keeps what was reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.interceptors.contract import Context, Interceptor, RecordBatch, TopicPartition
from kafka_sidecar.interceptors.guard import Guard, Limits, Place
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.registry import INTERCEPTORS

NOW = 1_700_000_000_000  # ms
Pairs = Iterable[tuple[str, bytes | None]]


class RecordedReport:
    """A `Report` that keeps what was reported."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str, str]] = []  # interceptor, hook, error
        self.places: list[TopicPartition | None] = []  # of failures and slow calls
        self.slow_calls: list[tuple[str, str]] = []
        self.out: list[tuple[str, int]] = []  # interceptor, failures in a row

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        self.places.append(TopicPartition(place.topic, place.partition) if place else None)
        self.failures.append((interceptor, hook, f"{type(error).__name__}: {error}"))

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None:
        self.places.append(TopicPartition(place.topic, place.partition) if place else None)
        self.slow_calls.append((interceptor, hook))

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: object = None) -> None:
        self.out.append((interceptor, failures))


def new(
    value: bytes | None = b"",
    key: bytes | None = None,
    headers: Pairs = (),
    timestamp: int = NOW,
    offset: int | None = None,
) -> NewRecord:
    return NewRecord(value, key, [Header(*header) for header in headers], timestamp - NOW, offset)


@pytest.fixture
def report() -> RecordedReport:
    return RecordedReport()


@pytest.fixture
def a_batch() -> Callable[..., Records]:
    """The records of a batch, each given as the arguments of `new`."""

    def of(*records: dict[str, Any], codec: int = 0) -> Records:
        (read,) = batches(build_batch([new(**record) for record in records], codec=codec, base_timestamp=NOW))
        return read.records()

    return of


@pytest.fixture
def context() -> Callable[..., Context]:
    """A context whose clock says NOW, or what it is given as ``now`` (ms)."""

    def of(now: int = NOW, **about: Any) -> Context:
        return Context(clock=lambda: now, **about)

    return of


@pytest.fixture
def configured() -> Callable[..., Any]:
    """A built-in interceptor with its settings."""

    def of(kind: str, **settings: Any) -> Any:
        interceptor = INTERCEPTORS.find(kind, None)()
        interceptor.configure(settings)
        return interceptor

    return of


@pytest.fixture
def sent(a_batch: Callable[..., Records], context: Callable[..., Context]) -> Callable[..., list[list[Any]]]:
    """The headers of records, given as for `a_batch`, after an interceptor has seen them on their way to a broker."""

    def of(interceptor: Any, *records: dict[str, Any], **about: Any) -> list[list[Any]]:
        left = interceptor.on_send_batch(RecordBatch("orders", 3, a_batch(*records), context(**about)))
        return [[(header.key, header.value) for header in record.headers] for record in left]

    return of


@pytest.fixture
def chain(report: Any) -> Callable[..., Producers]:
    """The chain of these producer interceptors."""

    def of(*interceptors: Interceptor, limits: Limits = Limits(failures=0)) -> Producers:  # noqa: B008 - frozen
        guards = [Guard(str(at), one, one.hints(), report, limits=limits) for at, one in enumerate(interceptors)]
        return Producers(tuple(guards))

    return of
