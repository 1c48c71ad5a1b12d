"""on_acknowledgement: what was really written, and what was not, for /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafka_sidecar.interceptors.contract import Hints, ProducerInterceptor, RecordMetadata
from kafka_sidecar.interceptors.metrics import Metric


class Receipts(ProducerInterceptor):
    """Counts records by topic and by what became of them."""

    def __init__(self) -> None:
        self.receipts: Counter[tuple[str, ...]] = Counter()

    def hints(self) -> Hints:
        return Hints(wants_records=False)  # nothing is decompressed to count

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.receipts[metadata.topic, type(exception).__name__ if exception else "written"] += 1

    def metrics(self) -> Iterable[Metric]:
        yield Metric("receipts", "Records by what became of them", ("topic", "outcome"), counters=self.receipts)
