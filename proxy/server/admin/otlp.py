"""Metrics and spans, sent to an OpenTelemetry collector by OTLP over HTTP. No request waits for the collector.

Imports OpenTelemetry, which is optional, so it is itself imported only if `otlp.endpoint` is set.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric

from kafka_sidecar import __version__
from kafka_sidecar.proxy.config.otlp import Otlp
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.server.admin.otlp_metrics import translate
from kafka_sidecar.proxy.server.admin.otlp_spans import Tracing

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
MAX_SPANS = 2048  # that wait to be sent; further ones are dropped
SCOPE = InstrumentationScope("kafka_sidecar", __version__)


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
