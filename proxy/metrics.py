"""Every metric of the sidecar, declared here; counted in plain integers and turned into Prometheus' form when asked.

Requests and responses are counted at four points, so that direction is plain:

    client -> proxy -> server (the broker): requests          server -> proxy -> client: responses
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar import __version__

PREFIX = "kafka_sidecar_"
LATENCY_BUCKETS = 27  # powers of two of a microsecond: 1 us to 67 s


class ApiCounts:
    """What passed of one API. The hot path adds to these fields directly."""

    __slots__ = (
        "answered",
        "answered_bytes",
        "held",
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
        self.answered = self.answered_bytes = 0  # requests that the sidecar answered itself
        self.rewritten_bytes = 0  # by how much rewriting made responses longer
        self.latency = [0] * LATENCY_BUCKETS  # index: bits of the microseconds
        self.latency_us = 0
        self.held = self.held_us = 0  # responses that were read whole before they went on

    def took(self, seconds: float) -> None:
        """A response has begun ``seconds`` after its request."""
        us = int(seconds * 1e6)
        self.latency_us += us
        bucket = us.bit_length()
        self.latency[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1


@dataclass(slots=True)
class Metrics:
    """The figures of one process."""

    apis: dict[int, ApiCounts] = field(default_factory=dict)
    connections: Counter[str] = field(default_factory=Counter)  # by listener: "bootstrap" or "node"
    active: Counter[str] = field(default_factory=Counter)
    disconnects: Counter[str] = field(default_factory=Counter)  # by cause
    connect_failures: Counter[str] = field(default_factory=Counter)  # by cause
    loop_delay: list[int] = field(default_factory=lambda: [0] * LATENCY_BUCKETS)
    loop_delay_s: float = 0.0
    nodes: int = 0
    cluster_reached: bool = False

    def api(self, key: int, name: str) -> ApiCounts:
        counts = self.apis.get(key)
        if counts is None:
            counts = self.apis[key] = ApiCounts(name)
        return counts

    def loop_was_late(self, seconds: float) -> None:
        us = max(0, int(seconds * 1e6))
        self.loop_delay[min(us.bit_length(), LATENCY_BUCKETS - 1)] += 1
        self.loop_delay_s += us / 1e6

    def text(self) -> bytes:
        """Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_Collector(self))
        ProcessCollector(registry=registry)
        return generate_latest(registry)


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    metrics: Metrics

    def collect(self) -> Iterator[Metric]:
        m = self.metrics
        yield from _four_points(list(m.apis.values()))
        yield from _latencies(list(m.apis.values()))
        yield _by("connections", "Connections that clients opened", "listener", m.connections)
        active = GaugeMetricFamily(
            PREFIX + "active_connections", "Connections of clients that are open", labels=["listener"]
        )
        for listener, number in m.active.items():
            active.add_metric([listener], number)
        yield active
        yield _by("disconnects", "Connections that ended", "cause", m.disconnects)
        yield _by("broker_connect_failures", "Attempts to reach a broker that failed", "cause", m.connect_failures)
        delay = HistogramMetricFamily(PREFIX + "event_loop_delay_seconds", "How late a timer of the event loop fired")
        delay.add_metric([], *_histogram(m.loop_delay, m.loop_delay_s))
        yield delay
        yield GaugeMetricFamily(PREFIX + "nodes", "Brokers that have a listener", value=m.nodes)
        yield GaugeMetricFamily(
            PREFIX + "cluster_reached", "1 once a broker has answered, 0 before", value=int(m.cluster_reached)
        )
        build = GaugeMetricFamily(
            PREFIX + "build_info", "Version of the sidecar, always 1", labels=["version", "python"]
        )
        build.add_metric([__version__, platform.python_version()], 1)
        yield build


Figures = Callable[[ApiCounts], tuple[int, int]]  # number and bytes


def _four_points(apis: Iterable[ApiCounts]) -> Iterator[Metric]:
    points: dict[str, tuple[str, Figures]] = {
        "client_to_proxy_request": (
            "Requests read from clients", lambda api: (api.requests, api.request_bytes)),
        "proxy_to_server_request": (
            "Requests passed on to brokers",
            lambda api: (api.requests - api.answered, api.request_bytes - api.answered_bytes)),
        "server_to_proxy_response": (
            "Responses read from brokers", lambda api: (api.responses, api.response_bytes)),
        "proxy_to_client_response": (
            "Responses passed on to clients, the sidecar's own included",
            lambda api: (api.responses + api.answered, api.response_bytes + api.rewritten_bytes)),
    }  # fmt: skip
    apis = [api for api in apis if api.requests]
    for name, (about, figures) in points.items():
        count = CounterMetricFamily(PREFIX + name, about, labels=["api_key"])
        size = CounterMetricFamily(PREFIX + name + "_size_bytes", about + ", in bytes", labels=["api_key"])
        for api in apis:
            number, octets = figures(api)
            count.add_metric([api.name], number)
            size.add_metric([api.name], octets)
        yield count
        yield size


def _latencies(apis: Iterable[ApiCounts]) -> Iterator[Metric]:
    latency = HistogramMetricFamily(
        PREFIX + "request_latency_seconds",
        "From a request's first bytes to its response's first bytes",
        labels=["api_key"],
    )
    held = CounterMetricFamily(
        PREFIX + "held_seconds",
        "Time that responses spent in the sidecar to be read whole and rewritten",
        labels=["api_key"],
    )
    held_count = CounterMetricFamily(PREFIX + "held", "Responses that were read whole", labels=["api_key"])
    for api in apis:
        if any(api.latency):
            latency.add_metric([api.name], *_histogram(api.latency, api.latency_us / 1e6))
        if api.held:
            held.add_metric([api.name], api.held_us / 1e6)
            held_count.add_metric([api.name], api.held)
    yield from (latency, held, held_count)


def _by(name: str, about: str, label: str, counter: Counter[str]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, about, labels=[label])
    for value, number in counter.items():
        family.add_metric([value], number)
    return family


def _histogram(counts: list[int], total: float) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets; counts[b] are values of b bits, that is below 2**b microseconds."""
    buckets: list[tuple[str, float]] = []
    seen = 0
    for bits, count in enumerate(counts):
        seen += count
        if bits >= 4 and bits < LATENCY_BUCKETS - 1:
            buckets.append((repr((1 << bits) / 1e6), seen))
    return [*buckets, ("+Inf", seen)], total
