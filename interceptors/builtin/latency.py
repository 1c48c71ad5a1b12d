"""Latency of records: until they are acknowledged, and from producer to consumer (KIP-42: end-to-end monitoring)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Literal

from pydantic import Field, PositiveInt

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.builtin.create_timestamp import KEY, TIME
from kafka_sidecar.interceptors.contract import (
    UNKNOWN,
    AcknowledgedBatch,
    ConsumerInterceptor,
    Hints,
    ProducerInterceptor,
    RecordBatch,
)
from kafka_sidecar.interceptors.metrics import Histogram, Metric, Series
from kafka_sidecar.plugins.settings import Settings, read_settings

US_PER_MS = 1000


class LatencySettings(Settings):
    produce: bool = True
    """Whether the time from sending to acknowledgement is measured. Needs no decompression."""
    end_to_end: bool = True
    """Whether the time from creation of a record to its delivery to a consumer is measured."""
    origin: Literal["timestamp", "_t"] = Field(default="timestamp", alias="from")
    """The creation time of a record: its timestamp, or the header that `create_timestamp` added, if it has one."""
    max_topics: PositiveInt = 1000
    """How many topics have their own histograms; further ones share that of the topic `(other)`."""


class Latency(ProducerInterceptor, ConsumerInterceptor):
    """Histograms of latencies, by topic."""

    settings = LatencySettings()
    # Set for what is measured: no batch is decompressed for a hook that is not set.
    on_acknowledgement_batch: Callable[[AcknowledgedBatch, Exception | None], None]
    on_consume_batch: Callable[[RecordBatch], Records]

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(LatencySettings, configs)
        if not (own.produce or own.end_to_end):
            raise ValueError("has no effect: set produce, end_to_end or both to true")
        self._lock = Lock()  # hooks run in several threads
        self._produce = Series(Histogram, own.max_topics)
        self._end_to_end = Series(Histogram, own.max_topics)
        self._times = _timestamps if own.origin == "timestamp" else _header_times
        if own.produce:
            self.on_acknowledgement_batch = self._acknowledged
        if own.end_to_end:
            self.on_consume_batch = self._consumed

    def hints(self) -> Hints:
        return Hints(wants_records=self.settings.end_to_end)

    def metrics(self) -> Iterable[Metric]:
        if self.settings.produce:
            about = "Time from sending records to a broker until it acknowledged them."
            yield self._metric("produce_latency_seconds", about, self._produce)
        if self.settings.end_to_end:
            about = "Time from creation of records until they are sent to a consumer."
            yield self._metric("end_to_end_latency_seconds", about, self._end_to_end)

    def _acknowledged(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        if exception is not None or batch.base_offset == UNKNOWN:  # acks=0: there is no acknowledgement
            return
        with self._lock:
            self._produce.of((batch.topic,)).add(batch.took_us, batch.count)

    def _consumed(self, batch: RecordBatch) -> Records:
        now = batch.context.clock()
        found = Counter(self._times(batch.records))  # few distinct times in a batch
        with self._lock:
            histogram = self._end_to_end.of((batch.topic,))
            for time, times in found.items():
                if time >= 0:  # -1: the record has none
                    histogram.add((now - time) * US_PER_MS, times)
        return batch.records

    def _metric(self, name: str, about: str, series: Series[Histogram]) -> Metric:
        with self._lock:
            values = {labels: Histogram(one.counts.copy(), one.total_us) for labels, one in series.values.items()}
        return Metric(name, about, ("topic",), histograms=values)


def _timestamps(records: Records) -> Iterable[int]:
    return records.timestamps()


def _header_times(records: Records) -> Iterator[int]:
    """The time in the header; the timestamp of a record without a valid one."""
    for record in records:
        header = record.header(KEY)
        if header is None or header.value is None or len(header.value) != TIME.size:
            yield record.timestamp
        else:
            yield TIME.unpack(header.value)[0]
