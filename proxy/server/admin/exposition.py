"""Every metric in Prometheus' text format: the one place that knows the client library.

Requests and responses are counted at four points, one for each direction on each side:

    client -> proxy -> broker: requests          broker -> proxy -> client: responses

Imported by the first request of /metrics: the client library allocates five megabytes, HTTP servers among it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.telemetry.metrics import (
    PREFIX,
    ApiCounts,
    Durations,
    Family,
    Metrics,
    counter,
    gauge,
    histogram,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKET_BITS = range(4, 27)  # histograms have buckets of 16 microseconds to 67 seconds
KINDS: dict[str, Any] = {
    "counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily,
}  # fmt: skip

Collect = Callable[[], Iterable[Family]]


def render(metrics: Metrics) -> bytes:
    """All metrics of a process that serves clients, in Prometheus' text format."""
    return text_of(partial(all_families, metrics))


def text_of(collect: Collect) -> bytes:
    """These metrics and those that every process has, in Prometheus' text format."""
    return generate_latest(registry(collect))


def registry(collect: Collect) -> CollectorRegistry:
    """The one registry of these metrics and those that every process has."""
    made = CollectorRegistry()
    made.register(_Collector(collect))
    ProcessCollector(registry=made)
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    families: Collect

    def collect(self) -> Iterator[Metric]:
        return map(_rendered, self.families())


def _rendered(family: Family) -> Metric:
    made: Metric = KINDS[family.kind](PREFIX + family.name, family.about, labels=family.labels)
    for labels, value in family.samples.items():
        made.add_metric(labels, *(_buckets(value) if isinstance(value, Durations) else (value,)))  # type: ignore[attr-defined]
    return made


def _buckets(durations: Durations) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets, and the sum."""
    rendered: list[tuple[str, float]] = []
    seen = 0
    for bits, count in enumerate(durations.counts):
        seen += count
        if bits in BUCKET_BITS:
            rendered.append((repr((1 << bits) / 1e6), seen))
    return [*rendered, ("+Inf", seen)], durations.total_s


def all_families(metrics: Metrics) -> Iterator[Family]:
    """What the engine and the features of one process have counted."""
    yield from engine_families(metrics)
    for families in metrics.features:
        yield from families()
    build = {(__version__, platform.python_version(), compiled.in_use()): 1}
    yield gauge("build_info", "Version and build of the sidecar; always 1", build, "version", "python", "build")


def engine_families(metrics: Metrics) -> Iterator[Family]:
    """What the engine of one process has counted."""
    m = metrics
    yield from _four_points([api for api in m.apis.values() if api.requests])
    yield from _latencies(list(m.apis.values()))
    yield counter("connections", "Connections accepted from clients", m.connections, "listener")
    yield gauge("active_connections", "Open client connections", m.active, "listener")
    yield counter("disconnects", "Ended client connections", m.disconnects, "cause")
    yield counter("broker_connect_failures", "Failed attempts to connect to a broker", m.connect_failures, "cause")
    yield counter("client_logins", "Logins of clients to the sidecar", m.client_logins, "result")
    yield counter("broker_logins", "Logins of the sidecar at brokers", m.broker_logins, "result")
    yield counter(
        "denials", "Resources of requests that clients may not use", m.denied, "api_key", "operation", "resource_type"
    )
    delay = Durations(m.loop_delay, m.loop_delay_s)
    yield histogram("event_loop_delay_seconds", "How late a timer of the event loop fired", delay)
    yield gauge("broker_listeners", "Brokers with an open listener", m.broker_listeners)
    yield gauge("cluster_reached", "1 once a broker was reached, 0 before", int(m.cluster_reached))
    yield gauge("buffered_bytes", "Bytes of frames that are buffered whole", m.buffered.bytes)
    yield counter("buffering_pauses", "Connections paused by connections.max_buffered", m.buffered.pauses)
    yield from _reloads(m)


def _reloads(metrics: Metrics) -> Iterator[Family]:
    yield gauge(
        "config_last_reload_successful",
        "1 if the last reload of the configuration succeeded, 0 if it was rejected",
        int(metrics.config_is_current),
    )
    yield gauge(
        "config_last_reload_success_timestamp_seconds",
        "When the configuration that applies was read, in seconds since 1970",
        metrics.config_applied_at,
    )
    yield gauge(
        "config_restart_required",
        "1 if the configuration file has changed settings that only a restart applies",
        int(bool(metrics.needs_restart)),
    )


Counts = Callable[[ApiCounts], tuple[int, int]]  # number and bytes
POINTS: dict[str, tuple[str, Counts]] = {
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


def _four_points(apis: Iterable[ApiCounts]) -> Iterator[Family]:
    for name, (about, counts) in POINTS.items():
        counted = {api.name: counts(api) for api in apis}
        yield counter(name, about, {api: number for api, (number, _) in counted.items()}, "api_key")
        sizes = {api: octets for api, (_, octets) in counted.items()}
        yield counter(name + "_size_bytes", about + ", in bytes", sizes, "api_key")


def _latencies(apis: Iterable[ApiCounts]) -> Iterator[Family]:
    yield histogram(
        "request_latency_seconds",
        "Time from the first bytes of a request to the first bytes of its response",
        {api.name: Durations(api.latency, api.latency_us / 1e6) for api in apis if any(api.latency)},
        "api_key",
    )
    yield histogram(
        "held_seconds",
        "Time for which the sidecar held requests and responses to look into them, of those that it held",
        {
            (api.name, side): Durations(counts, us / 1e6)
            for api in apis
            for side, number, counts, us in (
                ("request", api.held, api.held_durations, api.held_us),
                ("response", api.buffered, api.buffered_durations, api.buffered_us),
            )
            if number
        },
        "api_key",
        "side",
    )
    buffered = [api for api in apis if api.buffered]
    numbers = {api.name: api.buffered for api in buffered}
    yield counter("buffered_responses", "Responses buffered whole to be rewritten", numbers, "api_key")
    times = {api.name: api.buffered_us / 1e6 for api in buffered}
    yield counter("buffered_response_seconds", "Time that these responses were buffered", times, "api_key")
    held = [api for api in apis if api.held]
    numbers = {api.name: api.held for api in held}
    yield counter("buffered_requests", "Requests buffered whole to be looked into", numbers, "api_key")
    times = {api.name: api.held_us / 1e6 for api in held}
    yield counter("buffered_request_seconds", "Time that these requests were buffered", times, "api_key")
