"""An OpenTelemetry collector: what it gets is read with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(ThreadingHTTPServer):
    """Keeps the requests that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.received = b""
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def last_metrics(self) -> dict[str, Metric]:
        (resource,) = self.metrics[-1].resource_metrics
        return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}

    @property
    def spans(self) -> list[Span]:
        scopes = [scope for one in self.traces for resource in one.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]


class _Answers(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received += body
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.status == 200 and self.path == "/v1/metrics":
            self.server.metrics.append(ExportMetricsServiceRequest.FromString(body))
        elif self.server.status == 200 and self.path == "/v1/traces":
            self.server.traces.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *about: Any) -> None:
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
