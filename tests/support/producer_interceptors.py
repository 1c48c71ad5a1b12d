"""Producer interceptors that edit records as a test needs, or record their notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.contract import (
    AcknowledgedBatch,
    Hints,
    ProducerInterceptor,
    RecordBatch,
    RecordMetadata,
)
from kafka_sidecar.interceptors.headers import Headers
from kafka_sidecar.interceptors.records import ProducerRecord

Edit = Callable[[ProducerRecord], Any]


class Edits(ProducerInterceptor):
    """Edits each record with ``edit``, and records the values that it saw."""

    def __init__(self, edit: Edit = lambda record: record) -> None:
        self.edit, self.seen = edit, list[bytes | None]()

    def on_send(self, record: ProducerRecord) -> Any:
        self.seen.append(record.value)
        return self.edit(record)


class EditsWhole(ProducerInterceptor):
    """The same for batches."""

    def __init__(self, edit: Callable[[Records], Any] = lambda records: records) -> None:
        self.edit, self.seen = edit, list[bytes | None]()

    def on_send_batch(self, batch: RecordBatch) -> Any:
        self.seen += [record.value for record in batch.records]
        self.topic = batch.topic, batch.partition, batch.context
        return self.edit(batch.records)


class Hears(ProducerInterceptor):
    def __init__(self, wants_records: bool = True) -> None:
        self.wants_records, self.heard = wants_records, list[tuple[RecordMetadata, Exception | None]]()

    def hints(self) -> Hints:
        return Hints(wants_records=self.wants_records)

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.heard.append((metadata, exception))


class HearsHeaders(Hears):
    def on_acknowledgement_with_headers(
        self, metadata: RecordMetadata, exception: Exception | None, headers: Headers
    ) -> None:
        self.heard.append((metadata, exception))
        self.headers = [*getattr(self, "headers", []), headers]


class HearsWhole(ProducerInterceptor):
    def __init__(self) -> None:
        self.heard = list[tuple[AcknowledgedBatch, Exception | None]]()

    def on_acknowledgement_batch(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        self.heard.append((batch, exception))


def appends(text: bytes) -> Edit:
    return lambda record: record.replace(value=(record.value or b"") + text)


def adds(key: str) -> Edit:
    def edit(record: ProducerRecord) -> ProducerRecord:
        record.headers.add(key, b"")
        return record

    return edit


def fails(error: BaseException, first: Edit = lambda record: record) -> Edit:
    def edit(record: ProducerRecord) -> ProducerRecord:
        first(record)
        raise error

    return edit


class SilentReport:
    """A report that is not read."""

    def failed(self, *about: object) -> None: ...
    def slow(self, *about: object) -> None: ...
    def disabled(self, *about: object) -> None: ...
