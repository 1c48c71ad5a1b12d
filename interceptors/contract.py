"""The contracts of KIP-42, KIP-512 and KIP-547 between the sidecar and those who write interceptors.

Names and meanings are the KIPs'; docs/reference/interceptors.md says point by point what a proxy cannot keep. An
interceptor may be called from several threads, one call at a time for each direction of a connection (KIP-42).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka_sidecar.interceptors.values import (
    UNKNOWN,
    Context,
    OffsetAndMetadata,
    Offsets,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.interceptors.headers import Headers
    from kafka_sidecar.interceptors.metrics import Metric
    from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord

__all__ = [
    "UNKNOWN",
    "AcknowledgedBatch",
    "AcknowledgesBatches",
    "ConsumerInterceptor",
    "ConsumesBatches",
    "Context",
    "Hints",
    "Interceptor",
    "OffsetAndMetadata",
    "Offsets",
    "ProducerInterceptor",
    "RecordBatch",
    "RecordMetadata",
    "SendError",
    "SendsBatches",
    "TopicPartition",
]


class SendError(Exception):
    """A record was not written, or nobody knows. The text is that of the answer that the client gets."""

    def __init__(
        self, message: str, code: int = UNKNOWN, retriable: bool = False, bad_records: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code  # Kafka's error code; -1: there was no answer, or the record is not to blame
        self.retriable = retriable  # the client may send the record again; interceptors then see it again
        self.bad_records = bad_records or {}  # those to blame (KIP-467): place in the batch, and what is wrong

    def of(self, index: int) -> SendError:
        """What one record of the batch failed with: where others are to blame, no more than that (as in Kafka)."""
        if not self.bad_records:
            return self
        if index in self.bad_records:
            return SendError(self.bad_records[index], self.code, self.retriable)
        return SendError("it was part of a batch with records that were refused")


@dataclass(frozen=True, slots=True)
class Hints:
    """What an interceptor needs."""

    topics: tuple[str, ...] = ("*",)
    """Names of topics it is for, with * and ? as in a shell. The configuration may narrow this down."""
    wants_records: bool = True
    """Whether it looks at records: if not, nothing is decompressed for it; it gets no `on_send` and no `on_consume`."""
    fail_closed: bool = False
    """Whether consumers get nothing that this interceptor failed on; set it if the interceptor hides data. It is then
    never disabled. Otherwise a failure is counted, and the records go on without this interceptor's changes."""


class RecordBatch(NamedTuple):  # one is made for each hook and batch: a third of what a frozen dataclass costs
    """A batch of records on its way, as interceptors see it that take it as a whole."""

    topic: str
    partition: int
    records: Records
    context: Context


class AcknowledgedBatch(NamedTuple):
    """What became of a batch."""

    topic: str
    partition: int
    count: int  # type: ignore[assignment] # of records; tuple has a method of that name
    context: Context
    sent_at: int  # ms since 1970, by the context's clock: when the sidecar let it go to the broker
    base_offset: int = UNKNOWN
    log_append_time: int = UNKNOWN  # ms since 1970
    took_us: int = UNKNOWN  # microseconds since it was sent, by a clock that is never set


class Interceptor:
    """What both kinds have in common. One object serves all connections."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings from the configuration file. Called once, before anything else.

        Raises:
            ValueError: a setting is wrong; the text names it and the remedy.
        """

    def hints(self) -> Hints:
        """What it needs. Asked once, after `configure`."""
        return Hints()

    def metrics(self) -> Iterable[Metric]:
        """Its own metrics, for /metrics. Not part of KIP-42."""
        return ()

    def close(self) -> None:
        """Let go of what `configure` took. Called once, after the last connection that it serves has ended."""


class ProducerInterceptor(Interceptor):
    """Sees each record on its way to a broker, and what became of it (KIP-42). Whatever it raises is counted, told and
    otherwise ignored: it cannot fail a request."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record, or `ProducerRecord.replace` of it; its headers may be changed in place.

        Topic and partition cannot change here: the client has chosen them. A client that sends a record again, as after
        a lost connection, has it intercepted again.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        """The record was written, or ``exception`` says why not. Must be fast: the answer waits for it."""

    def on_acknowledgement_with_headers(
        self, metadata: RecordMetadata, exception: Exception | None, headers: Headers
    ) -> None:
        """As `on_acknowledgement`, which this calls, with the headers as they were sent, read-only (KIP-512).

        They are kept only for those who override this.
        """
        self.on_acknowledgement(metadata, exception)


class ConsumerInterceptor(Interceptor):
    """Sees records on their way to a consumer (KIP-42), and offsets that a group commits (KIP-547)."""

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        """The records, some of them changed with `ConsumerRecord.replace` or left out. None can be added or moved.

        Called for each batch that the client will see: not for those of aborted transactions where it reads only
        committed ones, nor for control batches.
        """
        return records

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What is to be committed in place of ``offsets``: changed, without some, with others; nothing if it is empty.

        Metadata is one string that others use too: append to it (KIP-547).
        """
        return offsets

    def on_commit(self, offsets: Offsets) -> None:
        """These offsets, as `pre_commit` left them, have been committed. Never called for what failed."""


# A second form, for interceptors whose loop over the records is compiled: a whole batch in one call. One that has such
# a method is not asked record by record.


class SendsBatches(Protocol):
    def on_send_batch(self, batch: RecordBatch) -> Records:
        """The records, or `Records.with_payload` of them: as many as there were."""
        ...


class ConsumesBatches(Protocol):
    def on_consume_batch(self, batch: RecordBatch) -> Records:
        """The records, or `Records.with_payload` of them: as many as there were."""
        ...


class AcknowledgesBatches(Protocol):
    def on_acknowledgement_batch(self, batch: AcknowledgedBatch, exception: Exception | None) -> None: ...
