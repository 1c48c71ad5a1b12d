"""Every metric by its name, in Prometheus' form.

Requests and responses are counted at four points, so that direction is plain:

    client -> proxy -> server (the broker): requests          server -> proxy -> client: responses

Imported when /metrics is asked for the first time: the client library brings five megabytes of HTTP servers.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar import __version__
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts, Metrics

if TYPE_CHECKING:
    from kafka_sidecar.proxy.validation.stats import Observed

CONTENT_TYPE = CONTENT_TYPE_LATEST
PREFIX = "kafka_sidecar_"
SHOWN_BITS = range(4, 27)  # histograms have buckets of 16 microseconds to 67 seconds


def exposed(metrics: Metrics) -> bytes:
    """The figures of the process in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
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
        if m.validation is not None:
            yield from _validation(m.validation)
        if m.interception is not None:
            from kafka_sidecar.proxy.interception import exposition as interception

            yield from interception.exposed(m.interception, PREFIX, _histogram)
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


def _validation(seen: Observed) -> Iterator[Metric]:
    refused = CounterMetricFamily(
        PREFIX + "refused_records",
        "Records that policies refused, or would have (mode shadow)",
        labels=["topic", "policy", "mode", "reason"],
    )
    for kind, number in seen.refusals.items():
        refused.add_metric(kind, number)
    failures = CounterMetricFamily(
        PREFIX + "policy_failures", "Failures of policies themselves", labels=["policy", "mode"]
    )
    for failed, number in seen.failures.items():
        failures.add_metric(failed, number)
    yield from (refused, failures)
    yield _by("validated_batches", "Batches that policies have judged, by how deep they looked", "depth", seen.batches)
    yield CounterMetricFamily(PREFIX + "validated_records", "Records of these batches", value=seen.records)


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
        if bits in SHOWN_BITS:
            buckets.append((repr((1 << bits) / 1e6), seen))
    return [*buckets, ("+Inf", seen)], total
