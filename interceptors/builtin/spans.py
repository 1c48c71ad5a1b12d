"""Spans of sent records, exported by OTLP over HTTP. The only module that imports OpenTelemetry, which is optional.

A span begins when a record is sent and ends when it is acknowledged. A thread of the SDK exports them: no request waits
for the collector, and spans that do not fit into the queue are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock, Thread, main_thread

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kafka_sidecar.interceptors.builtin.traceparent import TraceParent
from kafka_sidecar.interceptors.contract import UNKNOWN, AcknowledgedBatch, Context, RecordBatch
from kafka_sidecar.interceptors.metrics import Metric, escape_surrogates

MAX_PENDING_SPANS = 10_000  # of records that are not acknowledged yet; the exporter's queue has room for as many
TIMEOUT_S = 5.0
NS_PER_MS = 1_000_000
SHUTDOWN_THREAD = "last spans"
BatchKey = tuple[Context, str, int]  # a request has one context, and one batch for a partition


@dataclass(frozen=True, slots=True)
class Span:
    index: int  # of the record in its batch
    own: TraceParent
    parent: TraceParent | None


class Spans:
    """The spans of one interceptor."""

    def __init__(self, endpoint: str, service_name: str) -> None:
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT_S)
        self._processor = BatchSpanProcessor(exporter, max_queue_size=MAX_PENDING_SPANS)
        self._resource = Resource.create({SERVICE_NAME: service_name})
        self._pending: dict[BatchKey, tuple[int, list[Span]]] = {}  # when they were sent, ms
        self._count = 0  # of pending spans
        self._dropped = 0
        self._lock = Lock()  # hooks run in several threads

    def sent(
        self, batch: RecordBatch, made: Sequence[TraceParent | None], parents: Sequence[TraceParent | None]
    ) -> None:
        """Keep the sampled spans of a batch that is sent."""
        spans = [
            Span(index, own, parent)
            for index, (own, parent) in enumerate(zip(made, parents, strict=True))
            if own is not None and own.is_sampled
        ]
        key, kept = (batch.context, batch.topic, batch.partition), spans[:MAX_PENDING_SPANS]
        with self._lock:
            self._dropped += len(spans) - len(kept) + len(self._take(key)[1])
            while self._pending and self._count + len(kept) > MAX_PENDING_SPANS:  # the oldest may never be acknowledged
                self._dropped += len(self._take(next(iter(self._pending)))[1])
            if kept:
                self._count += len(kept)
                self._pending[key] = batch.context.clock(), kept

    def acknowledged(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        """Export the spans of a batch."""
        ended = batch.context.clock()
        with self._lock:
            began, spans = self._take((batch.context, batch.topic, batch.partition))
        for span in spans:
            self._processor.on_end(self._span(span, batch, began, ended, exception))

    def metrics(self) -> Iterator[Metric]:
        about = "Spans not exported because too many records were waiting for an acknowledgement."
        yield Metric("dropped_spans", about, (), counters={(): self._dropped})

    def close(self) -> None:
        """Export all spans, which takes at most `TIMEOUT_S`, in a thread that the program waits for at its end."""
        if main_thread().is_alive():
            Thread(target=self._processor.shutdown, name=SHUTDOWN_THREAD).start()
        else:  # the program is ending: it would not wait for another thread
            self._processor.shutdown()  # type: ignore[no-untyped-call]

    def _take(self, key: BatchKey) -> tuple[int, list[Span]]:
        began, spans = self._pending.pop(key, (0, []))
        self._count -= len(spans)
        return began, spans

    def _span(
        self, span: Span, batch: AcknowledgedBatch, began: int, ended: int, exception: Exception | None
    ) -> ReadableSpan:
        """The span, created without a tracer: that would choose the ids, which are in the record already."""
        attributes: dict[str, str | int] = {  # OpenTelemetry's semantic conventions for Kafka
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": escape_surrogates(batch.topic),
            "messaging.destination.partition.id": str(batch.partition),
        }
        if batch.context.client_id is not None:
            attributes["messaging.client.id"] = escape_surrogates(batch.context.client_id)
        if batch.base_offset != UNKNOWN:
            attributes["messaging.kafka.offset"] = batch.base_offset + span.index
        if exception is not None:
            attributes["error.type"] = str(getattr(exception, "code", type(exception).__name__))
        return ReadableSpan(
            f"send {escape_surrogates(batch.topic)}",
            context=_context(span.own, is_remote=False),
            parent=None if span.parent is None else _context(span.parent, is_remote=True),
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.PRODUCER,
            status=Status() if exception is None else Status(StatusCode.ERROR, escape_surrogates(str(exception))),
            start_time=began * NS_PER_MS,
            end_time=max(began, ended) * NS_PER_MS,
        )


def _context(one: TraceParent, is_remote: bool) -> SpanContext:
    return SpanContext(int(one.trace_id, 16), int(one.span_id, 16), is_remote, TraceFlags(one.flags))
