"""From a Produce response, or the lack of one, to what became of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.headers import ResponseHeader
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.produce import PartitionProduceResponse, ProduceResponse
from kafka_sidecar.codec.records import Batch, Codec
from kafka_sidecar.interceptors.contract import UNKNOWN, AcknowledgedBatch, Context, SendError
from kafka_sidecar.interceptors.producing import Details, Producers
from kafka_sidecar.proxy.validation.structure import HEADER_SIZE

# Kafka's RetriableException, as far as a Produce may be answered with one.
RETRIABLE = frozenset({2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75, 89, 100, 103})
HEADER_AT = 4
SMALLEST_RECORD = 7  # bytes
# What one byte can be inflated to at most, by codec: RFC 1951, the formats of snappy and LZ4, RFC 8878 (blocks that
# repeat one byte).
INFLATES_TO = (1, 1032, 22, 255, 32 << 10)

Place = tuple[str | bytes, int]  # the topic's name or id as the request has it, partition
Answers = Mapping[Place, PartitionProduceResponse]


@dataclass(slots=True)
class Sent:
    """One batch of a request, until it is known what became of it."""

    topic: str
    partition: int
    chain: Producers
    count: int  # of records; what its header says, as far as that can be
    sent_at: int = UNKNOWN  # ms since 1970
    began: float = field(default_factory=perf_counter)  # the same moment, in seconds of a clock that is never set
    details: Details | None = None

    def acknowledge(self, context: Context, answer: PartitionProduceResponse | None) -> None:
        """Tell its interceptors; None: there is no answer, as with acks=0."""
        if answer is None:
            self._tell(context, None, UNKNOWN, UNKNOWN)
        elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            # A duplicate has been written before; Kafka's clients take that for success too.
            self._tell(context, None, answer.base_offset, answer.log_append_time_ms)
        else:
            message = answer.error_message or f"the broker answers with error code {answer.error_code}"
            bad = {one.batch_index: one.batch_index_error_message or message for one in answer.record_errors}
            self.fail(context, SendError(message, answer.error_code, answer.error_code in RETRIABLE, bad))

    def fail(self, context: Context, error: SendError) -> None:
        """Tell its interceptors that it was not written, or that nobody knows."""
        self._tell(context, error, UNKNOWN, UNKNOWN)

    def _tell(self, context: Context, error: SendError | None, base: int, time: int) -> None:
        took_us = int((perf_counter() - self.began) * 1e6)
        batch = AcknowledgedBatch(self.topic, self.partition, self.count, context, self.sent_at, base, time, took_us)
        self.chain.notify(batch, self.details, error)


def records_in(batch: Batch, limit: int) -> int:
    """How many records a batch says it holds, as far as that can be where they have no more than ``limit`` bytes: its
    header may say anything."""
    payload = len(batch.data) - HEADER_SIZE
    codec = batch.header.codec
    size = payload if codec == Codec.NONE else min(payload * INFLATES_TO[codec], limit)
    return max(0, min(batch.header.count, size // SMALLEST_RECORD))


def answers(frame: bytes, version: int, by_id: bool) -> Answers:
    """What a Produce response says of each partition. Raises CodecError."""
    _, at = decode(ResponseHeader, frame, response_header_version(ApiKey.PRODUCE, version), HEADER_AT)
    response, _ = decode(ProduceResponse, frame, version, at)
    return {
        (topic.topic_id if by_id else topic.name, one.index): one
        for topic in response.responses
        for one in topic.partition_responses
    }
