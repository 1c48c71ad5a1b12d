"""Every metric by its name, in Prometheus' form.

Requests and responses are counted at four points, so that direction is plain:

    client -> proxy -> server (the broker): requests          server -> proxy -> client: responses

Imported when /metrics is asked for the first time: the client library brings five megabytes of HTTP servers.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar import __version__
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts, Metrics
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, buckets, counter_by

CONTENT_TYPE = CONTENT_TYPE_LATEST


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
        yield counter_by("connections", "Connections that clients opened", "listener", m.connections)
        active = GaugeMetricFamily(
            PREFIX + "active_connections", "Connections of clients that are open", labels=["listener"]
        )
        for listener, number in m.active.items():
            active.add_metric([listener], number)
        yield active
        yield counter_by("disconnects", "Connections that ended", "cause", m.disconnects)
        yield counter_by(
            "broker_connect_failures", "Attempts to reach a broker that failed", "cause", m.connect_failures
        )
        delay = HistogramMetricFamily(PREFIX + "event_loop_delay_seconds", "How late a timer of the event loop fired")
        delay.add_metric([], *buckets(m.loop_delay, m.loop_delay_s))
        yield delay
        yield GaugeMetricFamily(PREFIX + "nodes", "Brokers that have a listener", value=m.nodes)
        yield GaugeMetricFamily(
            PREFIX + "cluster_reached", "1 once a broker has answered, 0 before", value=int(m.cluster_reached)
        )
        for families in m.features:
            yield from families()
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
            latency.add_metric([api.name], *buckets(api.latency, api.latency_us / 1e6))
        if api.held:
            held.add_metric([api.name], api.held_us / 1e6)
            held_count.add_metric([api.name], api.held)
    yield from (latency, held, held_count)
