"""Spans that a collector gets: real requests of the real exporter, read with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Read
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.builtin import spans
from kafka_sidecar.interceptors.builtin.traceparent import TraceParent, parse_traceparent
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Context, RecordBatch, SendError

Made = Callable[..., Any]
NOW = 1_700_000_000_000
TRACE, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"


class Collector(ThreadingHTTPServer):
    """Keeps the requests that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.requests: list[ExportTraceServiceRequest] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.endpoint = f"http://127.0.0.1:{self.server_port}/v1/traces"

    def spans(self) -> list[Read]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Answers(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.may_answer.wait(30)
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *about: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def tracing(collector: Collector, configured: Made) -> Iterator[Any]:
    interceptor = configured("trace_context", otlp=collector.endpoint, service_name="orders-app")
    yield interceptor
    closed(interceptor)


def closed(interceptor: Any) -> None:
    interceptor.close()
    for thread in threading.enumerate():
        if thread.name == spans.SHUTDOWN_THREAD:
            thread.join()


def exported(interceptor: Any, collector: Collector) -> list[Read]:
    closed(interceptor)
    return collector.spans()


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def produced(tracing: Any, records: Records, context: Context, error: Exception | None = None) -> list[TraceParent]:
    made = tracing.on_send_batch(RecordBatch("orders", 3, records, context))
    tracing.on_acknowledgement_batch(
        AcknowledgedBatch("orders", 3, len(records), context, NOW, -1 if error else 70), error
    )
    return [own for record in made if (own := parse_traceparent(record.header("traceparent").value))]


def test_the_span_of_a_record_has_the_ids_of_its_header(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records]
) -> None:
    times = iter([NOW, NOW + 12])
    context = Context(clock=lambda: next(times), client_id="app")
    going_on = {"headers": [("traceparent", bytes(TraceParent(TRACE, SPAN, 1)))]}
    first, second = produced(tracing, a_batch({}, going_on), context)
    found = exported(tracing, collector)
    ids = [(span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) for span in found]
    assert ids == [
        (first.trace_id.decode(), first.span_id.decode(), ""),
        (TRACE.decode(), second.span_id.decode(), SPAN.decode()),
    ]
    assert {(span.start_time_unix_nano, span.end_time_unix_nano) for span in found} == {
        (NOW * 1_000_000, (NOW + 12) * 1_000_000)
    }


def test_a_span_has_topic_partition_and_client(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    produced(tracing, a_batch({}, {}), context(client_id="app"))
    found = exported(tracing, collector)
    assert {(span.name, span.kind, span.status.code) for span in found} == {
        ("send orders", Read.SPAN_KIND_PRODUCER, Status.STATUS_CODE_UNSET)
    }
    assert [values(span.attributes) for span in found] == [
        {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "orders",
            "messaging.destination.partition.id": "3",
            "messaging.client.id": "app",
            "messaging.kafka.offset": offset,
        }
        for offset in (70, 71)
    ]
    assert values(collector.requests[0].resource_spans[0].resource.attributes)["service.name"] == "orders-app"


def test_the_span_of_a_failed_record_has_the_error(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    produced(tracing, a_batch({}), context(), SendError("not the leader", 6))
    (span,) = exported(tracing, collector)
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "not the leader")
    assert values(span.attributes)["error.type"] == "6"
    assert "messaging.kafka.offset" not in values(span.attributes)


def test_only_sampled_spans_are_exported(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    quiet = {"headers": [("traceparent", bytes(TraceParent(TRACE, SPAN, 0)))]}
    _, loud = produced(tracing, a_batch(quiet, {}), context())
    assert [span.span_id.hex() for span in exported(tracing, collector)] == [loud.span_id.decode()]


def test_spans_of_concurrent_requests_are_not_mixed(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    contexts = [context(client_id="app")] * 2
    contexts[1] = contexts[0]._replace()  # of the same client, by the same clock
    for one in contexts:
        tracing.on_send_batch(RecordBatch("orders", 3, a_batch({}), one))
    for one, offset in zip(reversed(contexts), (1, 0), strict=True):
        tracing.on_acknowledgement_batch(AcknowledgedBatch("orders", 3, 1, one, NOW, offset), None)
    found = exported(tracing, collector)
    assert [values(span.attributes)["messaging.kafka.offset"] for span in found] == [1, 0]


def test_spans_that_are_never_acknowledged_do_not_fill_the_memory(
    tracing: Any,
    a_batch: Callable[..., Records],
    context: Callable[..., Context],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "MAX_PENDING_SPANS", 5)
    sent = [context() for _ in range(4)]
    for one in sent:
        tracing.on_send_batch(RecordBatch("orders", 3, a_batch({}, {}), one))
    assert [figures.counters for figures in tracing.metrics()] == [{(): 4}]  # the oldest
    tracing.on_acknowledgement_batch(AcknowledgedBatch("orders", 3, 2, sent[3], NOW, 0), None)
    tracing.on_send_batch(RecordBatch("orders", 3, a_batch({}, {}), context()))
    assert [figures.counters for figures in tracing.metrics()] == [{(): 4}]
    tracing.on_send_batch(RecordBatch("orders", 3, a_batch(*[{}] * 7), context()))
    assert [figures.counters for figures in tracing.metrics()] == [{(): 10}]


def test_a_request_with_a_partition_twice_leaves_no_open_span(
    tracing: Any, a_batch: Callable[..., Records], context: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "MAX_PENDING_SPANS", 5)
    for _ in range(4):
        twice = context()
        for _ in range(2):
            tracing.on_send_batch(RecordBatch("orders", 3, a_batch({}, {}), twice))
        tracing.on_acknowledgement_batch(AcknowledgedBatch("orders", 3, 2, twice, NOW, 0), None)
    assert [figures.counters for figures in tracing.metrics()] == [{(): 8}]


def test_text_that_cannot_be_written_is_exported_escaped(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    produced(tracing, a_batch({}), context(client_id="\udcff"), SendError("\udcfe"))
    (span,) = exported(tracing, collector)
    assert values(span.attributes)["messaging.client.id"] == "\\udcff"
    assert span.status.message == "\\udcfe"


def test_the_last_spans_are_exported_at_exit(
    tracing: Any,
    collector: Collector,
    a_batch: Callable[..., Records],
    context: Callable[..., Context],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    produced(tracing, a_batch({}), context())
    monkeypatch.setattr(spans, "main_thread", threading.Thread)  # one that is not alive, as when Python ends
    tracing.close()
    assert len(collector.spans()) == 1


def test_hooks_and_close_do_not_wait_for_the_collector(
    tracing: Any, collector: Collector, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    collector.may_answer.clear()
    produced(tracing, a_batch({}), context())
    tracing.close()
    assert spans.SHUTDOWN_THREAD in [thread.name for thread in threading.enumerate()]  # it still waits for the answer
    assert collector.requests == []
    collector.may_answer.set()
    assert len(exported(tracing, collector)) == 1


def test_an_unreachable_collector_is_not_a_failure(
    configured: Made,
    a_batch: Callable[..., Records],
    context: Callable[..., Context],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "TIMEOUT_S", 0.2)
    with Collector() as gone:
        pass
    tracing = configured("trace_context", otlp=gone.endpoint)
    assert produced(tracing, a_batch({}), context())
    closed(tracing)
