"""Metrics and spans, sent to an OpenTelemetry collector by OTLP over HTTP. No request waits for the collector.

Imports OpenTelemetry, which is optional, so it is itself imported only if `otlp.endpoint` is set.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from random import random

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from kafka_sidecar import __version__
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.sections import Otlp
from kafka_sidecar.proxy.relay.responses import Recorded, request_lines
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.tasks import spawn, stop

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
MAX_SPANS = 2048  # that wait to be sent; further ones are dropped
SCOPE = InstrumentationScope("kafka_sidecar", __version__)
CUMULATIVE = AggregationTemporality.CUMULATIVE
NOT_KNOWN = 0.0  # least and greatest value of a histogram
Labels = tuple[tuple[str, str], ...]
NS = 1_000_000_000
OPERATIONS = {ApiKey.PRODUCE: "send", ApiKey.FETCH: "receive", ApiKey.OFFSET_COMMIT: "settle"}


class OtlpExport:
    """Sends at an interval from `start` on, and the rest in `stop`."""

    def __init__(self, config: Otlp, collect: Callable[[], Iterable[Metric]], instance: str) -> None:
        assert config.endpoint is not None
        base, headers = config.endpoint.rstrip("/"), dict(config.headers)
        self._interval_s = config.interval
        self._collect = collect
        self._started_ns = time.time_ns()
        self._resource = Resource.create(
            {SERVICE_NAME: config.service_name, SERVICE_VERSION: __version__, "service.instance.id": instance}
        )
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", headers=headers, timeout=TIMEOUT_S)
        self._spans: BatchSpanProcessor | None = None
        self.tracing: Tracing | None = None
        if config.sample:
            exporter = OTLPSpanExporter(f"{base}/v1/traces", headers=headers, timeout=TIMEOUT_S)
            self._spans = BatchSpanProcessor(exporter, max_queue_size=MAX_SPANS)
            self.tracing = Tracing(config.sample, self._resource, self._spans.on_end)
        self._failed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it logs every attempt
        self._task = spawn(self._run(), "export metrics")

    async def stop(self) -> None:
        """Send what there is now, for `TIMEOUT_S` at most each."""
        if self._task is not None:
            await stop(self._task)
            await self._export()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.shutdown)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._export()

    async def _export(self) -> None:
        metrics = list(translate(self._collect(), self._started_ns, time.time_ns()))
        scope = ScopeMetrics(SCOPE, metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        succeeded = await asyncio.to_thread(self._send, data)
        if not succeeded and not self._failed:
            log.warning("metrics not exported", extra={"detail": "the OpenTelemetry collector did not accept them"})
        elif succeeded and self._failed:
            log.info("metrics are exported again")
        self._failed = not succeeded

    def _send(self, data: MetricsData) -> bool:
        try:
            return self._metrics.export(data) is MetricExportResult.SUCCESS
        except Exception:  # noqa: BLE001 - whatever the exporter raises, the sidecar goes on
            return False


def translate(families: Iterable[Metric], start_ns: int, now_ns: int) -> Iterator[OtlpMetric]:
    """All families; those without a sample are omitted."""
    for family in families:
        data: Sum | Gauge | Histogram
        if family.type == "histogram":
            data = Histogram(_histograms(family, start_ns, now_ns), CUMULATIVE)
        elif family.type == "counter":
            counted = (one for one in family.samples if one.name.endswith("_total"))
            data = Sum(_numbers(counted, start_ns, now_ns), CUMULATIVE, is_monotonic=True)
        else:
            data = Gauge(_numbers(family.samples, start_ns, now_ns))
        if data.data_points:
            name = family.name + ("_total" if family.type == "counter" else "")
            yield OtlpMetric(name, family.documentation, "", data)


def _numbers(samples: Iterable[Sample], start_ns: int, now_ns: int) -> list[NumberDataPoint]:
    return [NumberDataPoint(dict(one.labels), start_ns, now_ns, one.value) for one in samples]


def _histograms(family: Metric, start_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    """Of each series; Prometheus' buckets are cumulative, OpenTelemetry's are not."""
    series: dict[Labels, list[Sample]] = {}
    for one in family.samples:
        labels = tuple(sorted((name, value) for name, value in one.labels.items() if name != "le"))
        series.setdefault(labels, []).append(one)
    return [_histogram(labels, samples, start_ns, now_ns) for labels, samples in series.items()]


def _histogram(labels: Labels, samples: list[Sample], start_ns: int, now_ns: int) -> HistogramDataPoint:
    buckets = [(float(one.labels["le"]), int(one.value)) for one in samples if one.name.endswith("_bucket")]
    total = next((one.value for one in samples if one.name.endswith("_sum")), 0.0)
    counts = [seen - before for (_, before), (_, seen) in pairwise([(0.0, 0), *buckets])]
    bounds = [bound for bound, _ in buckets[:-1]]
    count = buckets[-1][1] if buckets else 0
    return HistogramDataPoint(dict(labels), start_ns, now_ns, count, total, counts, bounds, NOT_KNOWN, NOT_KNOWN)


class Tracing:
    """Chooses requests, and passes their spans on."""

    def __init__(self, share: float, resource: Resource, ended: Callable[[ReadableSpan], None]) -> None:
        self._share = share
        self._resource = resource
        self._ended = ended

    def recorder(self, session: Session, add: Callable[[Recorded], None]) -> Callable[[Recorded], None]:
        """What records the requests of a session: ``add``, and of some requests a span."""

        def record(recorded: Recorded) -> None:
            add(recorded)
            if random() < self._share:  # noqa: S311 - not a secret
                self._ended(self._span(session, recorded))

        return record

    def _span(self, session: Session, recorded: Recorded) -> ReadableSpan:
        (line,) = request_lines([recorded], time.perf_counter())
        api = recorded[0]
        began = time.time_ns() - int(line.ago_s * NS)
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": api.name,
            "kafka.api.version": api.version,
            "kafka.correlation_id": line.correlation_id,
            "kafka.request.bytes": line.request_bytes,
            "kafka.response.bytes": line.response_bytes,
            "kafka.response.by": line.response,
            "kafka_sidecar.session": session.number,
        }
        if (kind := OPERATIONS.get(ApiKey(api.key))) is not None:
            attributes["messaging.operation.type"] = kind
        if session.client_id is not None:
            attributes["messaging.client.id"] = session.client_id.encode("utf-8", "replace").decode()
        if line.status.throttle_ms:
            attributes["kafka.throttle_ms"] = line.status.throttle_ms
        if line.status.error_code:
            attributes["error.type"] = str(line.status.error_code)
        context = SpanContext(_random_id(16), _random_id(8), is_remote=False, trace_flags=TraceFlags(1))
        return ReadableSpan(
            api.name,
            context=context,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR) if line.status.error_code else Status(),
            start_time=began,
            end_time=began + int((line.response_after_s or 0.0) * NS),
        )


def _random_id(size: int) -> int:
    return int.from_bytes(os.urandom(size), "big") or 1
