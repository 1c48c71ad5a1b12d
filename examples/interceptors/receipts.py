"""on_acknowledgement: how many records were written and how many failed, on /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafka_sidecar.interceptors.contract import Hints, ProducerInterceptor, RecordMetadata
from kafka_sidecar.interceptors.metrics import Metric


class Receipts(ProducerInterceptor):
    """Counts records by topic and outcome."""

    def __init__(self) -> None:
        self.receipts: Counter[tuple[str, ...]] = Counter()

    def hints(self) -> Hints:
        return Hints(wants_records=False)  # counting needs no decompression

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.receipts[metadata.topic, type(exception).__name__ if exception else "written"] += 1

    def metrics(self) -> Iterable[Metric]:
        yield Metric("receipts", "Records by outcome", ("topic", "outcome"), counters=self.receipts)
