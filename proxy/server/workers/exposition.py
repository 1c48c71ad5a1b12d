"""Metrics of the supervisor itself, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.server.workers.supervisor import Supervisor
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX

CONTENT_TYPE = CONTENT_TYPE_LATEST


def collect(supervisor: Supervisor) -> Iterator[Metric]:
    """All metric families of workers."""
    workers = supervisor.workers
    yield GaugeMetricFamily(PREFIX + "workers", "Workers that are configured", value=len(workers))
    serving = sum(worker.is_serving for worker in workers)
    yield GaugeMetricFamily(PREFIX + "workers_serving", "Workers that serve clients", value=serving)
    restarts = CounterMetricFamily(
        PREFIX + "worker_restarts", "How often a worker has ended and was started again", labels=["worker"]
    )
    for number, count in supervisor.restarts.items():
        restarts.add_metric([str(number)], count)
    yield restarts


def render(supervisor: Supervisor, rate: LogRate) -> bytes:
    """The metrics of this process, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Collector(supervisor, rate))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    supervisor: Supervisor
    rate: LogRate

    def collect(self) -> Iterable[Metric]:
        yield from collect(self.supervisor)
        yield from self.rate.collect()
