"""Counts produced records and bytes by topic and client, and distinct keys by topic (the example of KIP-42)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pydantic import PositiveInt

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.bounded_series import Series
from kafka_sidecar.interceptors.builtin.hyperloglog import Sketch
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Hints, ProducerInterceptor, RecordBatch
from kafka_sidecar.interceptors.metrics import Metric
from kafka_sidecar.plugins.settings import Settings, read_settings


class CountingSettings(Settings):
    bytes: bool = True
    """Whether bytes are counted, for which batches are decompressed."""
    keys: bool = True
    """Whether the number of distinct keys is estimated, for which batches are decompressed."""
    max_series: PositiveInt = 1000
    """How many pairs of topic and client id are counted separately. Further client ids are counted as `(other)`, and \
with twice as many series further topics too. As many topics have an estimate of distinct keys."""


@dataclass(slots=True)
class Counted:
    written: int = 0  # records
    failed: int = 0
    sent_bytes: int = 0


class Counting(ProducerInterceptor):
    """Counts records when they are acknowledged, bytes and distinct keys when they are sent."""

    settings = CountingSettings()
    on_send_batch: Callable[[RecordBatch], Records]  # set if bytes or keys are counted

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(CountingSettings, configs)
        self._lock = Lock()  # hooks run in several threads
        self._counted = Series(Counted, own.max_series)
        self._keys = Series(Sketch, own.max_series)
        if own.bytes or own.keys:
            self.on_send_batch = self._sent

    def hints(self) -> Hints:
        return Hints(wants_records=self.settings.bytes or self.settings.keys)

    def metrics(self) -> Iterable[Metric]:
        with self._lock:
            counted = dict(self._counted.values)
            keys = {labels: round(sketch.estimate()) for labels, sketch in self._keys.values.items()}
        by = ("topic", "client_id")
        written = {labels: one.written for labels, one in counted.items()}
        yield Metric("written_records", "Records that a broker has acknowledged.", by, counters=written)
        failed = {labels: one.failed for labels, one in counted.items()}
        yield Metric("unwritten_records", "Records whose response had an error.", by, counters=failed)
        if self.settings.bytes:
            sent = {labels: one.sent_bytes for labels, one in counted.items()}
            yield Metric("sent_record_bytes", "Sizes of sent records before compression.", by, counters=sent)
        if self.settings.keys:
            yield Metric("distinct_keys", "Distinct keys of sent records, estimated.", ("topic",), gauges=keys)

    def on_acknowledgement_batch(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        with self._lock:
            counted = self._counted.of((batch.topic, batch.context.client_id or ""))
            if exception is None:
                counted.written += batch.count
            else:
                counted.failed += batch.count

    def _sent(self, batch: RecordBatch) -> Records:
        own, records = self.settings, batch.records
        keys = [key for record in records if (key := record.key) is not None] if own.keys else ()
        with self._lock:
            self._counted.of((batch.topic, batch.context.client_id or "")).sent_bytes += len(records.payload)
            if keys:
                self._keys.of((batch.topic,)).add(keys)
        return records
