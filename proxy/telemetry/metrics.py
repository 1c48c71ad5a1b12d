"""Metrics as plain values: families with their samples, and the counters of the engine.

Each part that counts says what it has counted as `Family`; server/admin/exposition.py renders all for Prometheus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

PREFIX = "kafka_sidecar_"  # of every name
LATENCY_BUCKETS = 64  # powers of two of a microsecond; more than any duration needs

Labels = tuple[str, ...]  # their names, or their values in the same order


@dataclass(frozen=True, slots=True)
class Durations:
    """The value of a histogram's sample."""

    counts: Sequence[int]  # counts[b]: those of b bits, that is below 2**b microseconds
    total_s: float


@dataclass(frozen=True, slots=True)
class Family:
    """One metric and its samples, by the values of its labels."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str  # without the prefix, and without _total
    about: str
    labels: Labels
    samples: Mapping[Labels, float | Durations]


def counter(name: str, about: str, value: float | Mapping[Any, float], *labels: str) -> Family:
    """``value``: with labels, one for the values of each, or for the value of the only one."""
    return Family("counter", name, about, labels, _samples(value))


def gauge(name: str, about: str, value: float | Mapping[Any, float], *labels: str) -> Family:
    """As `counter`."""
    return Family("gauge", name, about, labels, _samples(value))


def histogram(name: str, about: str, value: Durations | Mapping[Any, Durations], *labels: str) -> Family:
    """As `counter`."""
    return Family("histogram", name, about, labels, _samples(value))


def _samples(value: float | Durations | Mapping[Any, float | Durations]) -> Mapping[Labels, float | Durations]:
    if not isinstance(value, Mapping):
        return {(): value}
    found = dict(value)  # threads may add to it
    if isinstance(next(iter(found), ()), tuple):
        return found
    return dict(zip(zip(found, strict=True), found.values(), strict=True))


class ApiCounts:
    """Counters of one API. The hot path adds to these fields directly."""

    __slots__ = (
        "answered",
        "answered_bytes",
        "buffered",
        "buffered_durations",
        "buffered_us",
        "held",
        "held_durations",
        "held_us",
        "latency",
        "latency_us",
        "name",
        "request_bytes",
        "requests",
        "response_bytes",
        "responses",
        "rewritten_bytes",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = self.request_bytes = 0  # read from clients
        self.responses = self.response_bytes = 0  # read from brokers
        self.answered = 0  # requests with a local response
        self.answered_bytes = 0  # not forwarded to brokers: these requests, and rejected partitions of others
        self.rewritten_bytes = 0  # difference in length that rewriting made to responses
        self.latency = [0] * LATENCY_BUCKETS  # index: bits of the microseconds
        self.latency_us = 0
        self.buffered = self.buffered_us = 0  # responses buffered whole before they were forwarded
        self.held = self.held_us = 0  # requests buffered whole before it was decided what becomes of them
        self.buffered_durations, self.held_durations = [0] * LATENCY_BUCKETS, [0] * LATENCY_BUCKETS  # as latency

    def add_buffered(self, grown: int, seconds: float) -> None:
        """A response was buffered whole for that long; ``grown`` more bytes were forwarded than had come."""
        self.buffered += 1
        us = int(seconds * 1e6)
        self.buffered_us += us
        self.buffered_durations[us.bit_length()] += 1
        self.rewritten_bytes += grown

    def add_held(self, seconds: float) -> None:
        """A request was buffered whole; after this time it was decided what becomes of it."""
        self.held += 1
        us = int(seconds * 1e6)
        self.held_us += us
        self.held_durations[us.bit_length()] += 1


@dataclass(slots=True)
class Buffered:
    """Frames that are buffered whole, over all connections."""

    bytes: int = 0
    pauses: int = 0  # how often a connection was paused because they had reached the limit


@dataclass(slots=True)
class Metrics:
    """The counters of one process."""

    apis: dict[int, ApiCounts] = field(default_factory=dict)
    connections: Counter[str] = field(default_factory=Counter)  # by listener: "bootstrap" or "node"
    active: Counter[str] = field(default_factory=Counter)
    disconnects: Counter[str] = field(default_factory=Counter)  # by cause
    connect_failures: Counter[str] = field(default_factory=Counter)  # by cause
    client_logins: Counter[str] = field(default_factory=Counter)  # to the sidecar, by result
    broker_logins: Counter[str] = field(default_factory=Counter)  # the sidecar's own, by result
    denied: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by API, operation and type of resource
    loop_delay: list[int] = field(default_factory=lambda: [0] * LATENCY_BUCKETS)
    loop_delay_s: float = 0.0
    broker_listeners: int = 0
    cluster_reached: bool = False
    buffered: Buffered = field(default_factory=Buffered)
    config_is_current: bool = True  # whether the last reload succeeded
    config_applied_at: float = 0.0  # seconds since 1970
    config_generation: int = 0  # how many configurations have applied since the start
    needs_restart: tuple[str, ...] = ()  # changed sections of the last valid file
    features: list[Callable[[], Iterable[Family]]] = field(default_factory=list)  # what each counts

    def api(self, key: int, name: str) -> ApiCounts:
        counts = self.apis.get(key)
        if counts is None:
            counts = self.apis[key] = ApiCounts(name)
        return counts

    def record_reload(self, needs_restart: Iterable[str] | None, now: float) -> None:
        """The configuration was read, at the start or again.

        Args:
            needs_restart: the changed sections that a restart would apply; None if the file was rejected.
            now: seconds since 1970.
        """
        self.config_is_current = needs_restart is not None
        if needs_restart is not None:
            self.needs_restart = tuple(needs_restart)
            self.config_applied_at = now
            self.config_generation += 1

    def record_loop_delay(self, seconds: float) -> None:
        us = max(0, int(seconds * 1e6))
        self.loop_delay[us.bit_length()] += 1
        self.loop_delay_s += us / 1e6
