"""W3C Trace Context in records: the sidecar continues a trace, or starts one (KIP-42: tracing with any client)."""

from __future__ import annotations

import os
from binascii import hexlify
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import random
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from kafka_sidecar.codec.records import (
    KEEP,
    Change,
    Header,
    Record,
    Records,
    edit_records,
    with_header_each,
    without_headers,
)
from kafka_sidecar.interceptors.builtin.traceparent import SAMPLED, TraceParent, parse_traceparent
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, ProducerInterceptor, RecordBatch
from kafka_sidecar.interceptors.metrics import Metric
from kafka_sidecar.plugins.settings import Settings, read_settings

if TYPE_CHECKING:
    from kafka_sidecar.interceptors.builtin.spans import Spans

KEY, STATE = b"traceparent", b"tracestate"
SPAN_DIGITS, TRACE_DIGITS = 16, 32
NOT_INSTALLED = "otlp: OpenTelemetry is not installed; in a clone, pip install '.[otel]'"


class TraceContextSettings(Settings):
    start: bool = True
    """Whether a trace is started for records without a valid `traceparent`; otherwise these are not changed."""
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of the started traces that is sampled. Continued traces keep their flag."""
    otlp: str | None = None
    """The URL that spans are exported to, by OTLP over HTTP, such as `http://collector:4318/v1/traces`."""
    service_name: str = "kafka-sidecar"
    """The service that the spans belong to."""


class TraceContext(ProducerInterceptor):
    """Each record is sent with one `traceparent`, whose span is the sidecar's sending of the record."""

    settings = TraceContextSettings()
    on_acknowledgement_batch: Callable[[AcknowledgedBatch, Exception | None], None]  # set if spans are exported
    _spans: Spans | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(TraceContextSettings, configs)
        if own.otlp is not None:
            self._spans = _open_exporter(own.otlp, own.service_name)
            self.on_acknowledgement_batch = self._spans.acknowledged

    def metrics(self) -> Iterable[Metric]:
        return () if self._spans is None else self._spans.metrics()

    def close(self) -> None:
        if self._spans is not None:
            self._spans.close()

    def on_send_batch(self, batch: RecordBatch) -> Records:
        records = batch.records
        has_key, has_state = _has_any(records, KEY), _has_any(records, STATE)
        parents = [_parent(record) for record in records] if has_key else [None] * len(records)
        made = self._next_spans(parents)
        if self._spans is not None:
            self._spans.sent(batch, made, parents)
        if (has_key and None in made) or (has_state and None in parents):  # records differ: change one by one
            return edit_records(records, _changes(records, parents, made))
        left = without_headers(records, (KEY,)) if has_key else records
        values = [KEEP if one is None else bytes(one) for one in made]
        return with_header_each(left, KEY, values)

    def _next_spans(self, parents: Sequence[TraceParent | None]) -> list[TraceParent | None]:
        """The spans of the records; None: a record has none."""
        step = SPAN_DIGITS + TRACE_DIGITS
        random_digits = hexlify(os.urandom(step // 2 * len(parents)))
        made: list[TraceParent | None] = []
        for at, parent in zip(range(0, len(random_digits), step), parents, strict=True):
            span_id = random_digits[at : at + SPAN_DIGITS]
            if parent is not None:
                made.append(TraceParent(parent.trace_id, span_id, parent.flags))
            elif self.settings.start:
                made.append(TraceParent(random_digits[at + SPAN_DIGITS : at + step], span_id, self._flags()))
            else:
                made.append(None)
        return made

    def _flags(self) -> int:
        sample = self.settings.sample
        return SAMPLED if sample >= 1 or random() < sample else 0  # noqa: S311 - not a secret


def _open_exporter(endpoint: str, service_name: str) -> Spans:
    try:
        from kafka_sidecar.interceptors.builtin.spans import Spans
    except ImportError as error:
        raise ValueError(NOT_INSTALLED) from error
    return Spans(endpoint, service_name)


def _has_any(records: Records, key: bytes) -> bool:
    return len(records.missing_header(key)) < len(records)


def _parent(record: Record) -> TraceParent | None:
    header = record.header(KEY)
    return None if header is None else parse_traceparent(header.value)


def _changes(
    records: Records, parents: Iterable[TraceParent | None], made: Iterable[TraceParent | None]
) -> Iterator[tuple[Record, Change]]:
    """One `traceparent` for each record. A `tracestate` belongs to its trace: it is removed if a new one starts."""
    for record, parent, own in zip(records, parents, made, strict=True):
        if own is not None:
            gone = (KEY,) if parent is not None else (KEY, STATE)
            left = [header for header in record.headers if header.key_bytes not in gone]
            yield record, Change(headers=[*left, Header(KEY, bytes(own))])
