"""Renders every metric in Prometheus' text format.

Requests and responses are counted at four points, one for each direction on each side:

    client -> proxy -> broker: requests          broker -> proxy -> client: responses

Imported by the first request of /metrics: the client library allocates five megabytes, HTTP servers among it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts, Metrics
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, buckets, counter_by

CONTENT_TYPE = CONTENT_TYPE_LATEST


def render(metrics: Metrics) -> bytes:
    """All metrics of the process in Prometheus' text format."""
    return generate_latest(registry(metrics))


def registry(metrics: Metrics) -> CollectorRegistry:
    """The one registry of all metrics of the process."""
    made = CollectorRegistry()
    made.register(_Collector(metrics))
    ProcessCollector(registry=made)
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    metrics: Metrics

    def collect(self) -> Iterator[Metric]:
        m = self.metrics
        yield from _four_points(list(m.apis.values()))
        yield from _latencies(list(m.apis.values()))
        yield counter_by("connections", "Connections accepted from clients", "listener", m.connections)
        active = GaugeMetricFamily(PREFIX + "active_connections", "Open client connections", labels=["listener"])
        for listener, number in m.active.items():
            active.add_metric([listener], number)
        yield active
        yield counter_by("disconnects", "Ended client connections", "cause", m.disconnects)
        yield counter_by(
            "broker_connect_failures", "Failed attempts to connect to a broker", "cause", m.connect_failures
        )
        yield counter_by("client_logins", "Logins of clients to the sidecar", "result", m.client_logins)
        yield counter_by("broker_logins", "Logins of the sidecar at brokers", "result", m.broker_logins)
        yield counter_by("denials", "Resources of requests that clients may not use", "api_key", m.denied)
        delay = HistogramMetricFamily(PREFIX + "event_loop_delay_seconds", "How late a timer of the event loop fired")
        delay.add_metric([], *buckets(m.loop_delay, m.loop_delay_s))
        yield delay
        yield GaugeMetricFamily(PREFIX + "broker_listeners", "Brokers with an open listener", value=m.broker_listeners)
        yield GaugeMetricFamily(
            PREFIX + "cluster_reached", "1 once a broker was reached, 0 before", value=int(m.cluster_reached)
        )
        yield GaugeMetricFamily(
            PREFIX + "buffered_bytes", "Bytes of frames that are buffered whole", value=m.buffered.bytes
        )
        yield CounterMetricFamily(
            PREFIX + "buffering_pauses", "Connections paused by connections.max_buffered", value=m.buffered.pauses
        )
        yield from _reloads(m)
        for families in m.features:
            yield from families()
        build = GaugeMetricFamily(
            PREFIX + "build_info", "Version and build of the sidecar; always 1", labels=["version", "python", "build"]
        )
        build.add_metric([__version__, platform.python_version(), compiled.in_use()], 1)
        yield build


Counts = Callable[[ApiCounts], tuple[int, int]]  # number and bytes


def _reloads(metrics: Metrics) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        PREFIX + "config_last_reload_successful",
        "1 if the last reload of the configuration succeeded, 0 if it was rejected",
        value=int(metrics.config_is_current),
    )
    yield GaugeMetricFamily(
        PREFIX + "config_last_reload_success_timestamp_seconds",
        "When the configuration that applies was read, in seconds since 1970",
        value=metrics.config_applied_at,
    )
    yield GaugeMetricFamily(
        PREFIX + "config_restart_required",
        "1 if the configuration file has changed settings that only a restart applies",
        value=int(bool(metrics.needs_restart)),
    )


def _four_points(apis: Iterable[ApiCounts]) -> Iterator[Metric]:
    points: dict[str, tuple[str, Counts]] = {
        "client_to_proxy_request": (
            "Requests read from clients", lambda api: (api.requests, api.request_bytes)),
        "proxy_to_broker_request": (
            "Requests forwarded to brokers",
            lambda api: (api.requests - api.answered, api.request_bytes - api.answered_bytes)),
        "broker_to_proxy_response": (
            "Responses read from brokers", lambda api: (api.responses, api.response_bytes)),
        "proxy_to_client_response": (
            "Responses forwarded to clients, the sidecar's own included",
            lambda api: (api.responses + api.answered, api.response_bytes + api.rewritten_bytes)),
    }  # fmt: skip
    apis = [api for api in apis if api.requests]
    for name, (about, counts) in points.items():
        count = CounterMetricFamily(PREFIX + name, about, labels=["api_key"])
        size = CounterMetricFamily(PREFIX + name + "_size_bytes", about + ", in bytes", labels=["api_key"])
        for api in apis:
            number, octets = counts(api)
            count.add_metric([api.name], number)
            size.add_metric([api.name], octets)
        yield count
        yield size


def _latencies(apis: Iterable[ApiCounts]) -> Iterator[Metric]:
    latency = HistogramMetricFamily(
        PREFIX + "request_latency_seconds",
        "Time from the first bytes of a request to the first bytes of its response",
        labels=["api_key"],
    )
    buffered = CounterMetricFamily(
        PREFIX + "buffered_responses", "Responses buffered whole to be rewritten", labels=["api_key"]
    )
    buffered_time = CounterMetricFamily(
        PREFIX + "buffered_response_seconds", "Time that these responses were buffered", labels=["api_key"]
    )
    for api in apis:
        if any(api.latency):
            latency.add_metric([api.name], *buckets(api.latency, api.latency_us / 1e6))
        if api.buffered:
            buffered.add_metric([api.name], api.buffered)
            buffered_time.add_metric([api.name], api.buffered_us / 1e6)
    yield from (latency, buffered, buffered_time)
