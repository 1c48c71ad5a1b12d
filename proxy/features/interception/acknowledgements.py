"""What a producer's interceptors are notified of: what became of each batch, or that it is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.messages.produce import PartitionProduceResponse
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch, Codec
from kafka_sidecar.interceptors.contract import UNKNOWN, AcknowledgedBatch, Context, SendError
from kafka_sidecar.interceptors.producing import Details, Producers

# Kafka's RetriableException, as far as a Produce may be answered with one.
RETRIABLE = frozenset({2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75, 89, 100, 103})
MIN_RECORD_BYTES = 7
# What one byte can be inflated to at most, by codec: RFC 1951, the formats of snappy and LZ4, RFC 8878 (blocks that
# repeat one byte).
INFLATES_TO = (1, 1032, 22, 255, 32 << 10)


@dataclass(slots=True)
class SentBatch:
    """One batch of a request, until it is known what became of it."""

    topic: str
    partition: int
    chain: Producers
    count: int  # of records; what its header says, as far as that can be
    stopwatch: Callable[[], float]  # seconds of a clock that is never set
    sent_at: int = UNKNOWN  # ms since 1970
    began: float = 0.0  # the same moment by the stopwatch
    details: Details | None = None

    def acknowledge(self, context: Context, result: PartitionProduceResponse | None) -> None:
        """Notify its interceptors; None: there is no response, as with acks=0."""
        if result is None:
            self._notify(context, None, UNKNOWN, UNKNOWN)
        elif result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            # A duplicate has been written before; Kafka's clients take that for success too.
            self._notify(context, None, result.base_offset, result.log_append_time_ms)
        else:
            message = result.error_message or f"the broker responded with error code {result.error_code}"
            bad = {one.batch_index: one.batch_index_error_message or message for one in result.record_errors}
            self.fail(context, SendError(message, result.error_code, result.error_code in RETRIABLE, bad))

    def fail(self, context: Context, error: SendError) -> None:
        """Notify its interceptors that it was not written, or that this is not known."""
        self._notify(context, error, UNKNOWN, UNKNOWN)

    def _notify(self, context: Context, error: SendError | None, base: int, time: int) -> None:
        took_us = int((self.stopwatch() - self.began) * 1e6)
        batch = AcknowledgedBatch(self.topic, self.partition, self.count, context, self.sent_at, base, time, took_us)
        self.chain.notify(batch, self.details, error)


def count_records(batch: Batch, limit: int) -> int:
    """How many records a batch says it holds, limited to as many as fit into ``limit`` bytes: its header may lie."""
    payload = len(batch.data) - BATCH_HEADER_SIZE
    codec = batch.header.codec
    size = payload if codec == Codec.NONE else min(payload * INFLATES_TO[codec], limit)
    return max(0, min(batch.header.count, size // MIN_RECORD_BYTES))
