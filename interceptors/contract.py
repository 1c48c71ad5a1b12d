"""The contract of KIP-42, KIP-512 and KIP-547 between the sidecar and authors of interceptors.

Names and meanings are the KIPs'; docs/reference/interceptors.md lists where a proxy must differ. An interceptor is
called from several threads, one call at a time for each direction of a connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka_sidecar.plugins.effects import Unresolved
from kafka_sidecar.plugins.values import (
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
    "Unresolved",
]


class SendError(Exception):
    """A record was not written, or may not have been. The text is that of the response to the client."""

    def __init__(
        self, message: str, code: int = UNKNOWN, retriable: bool = False, bad_records: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code  # Kafka's error code; -1: there was no response, or other records are invalid
        self.retriable = retriable  # whether the client may send the record again, which is intercepted again
        self.bad_records = bad_records or {}  # the invalid ones (KIP-467): index in the batch -> message

    def of(self, index: int) -> SendError:
        """The error of one record of the batch; if only other records are invalid, it says no more (as in Kafka)."""
        if not self.bad_records:
            return self
        if index in self.bad_records:
            return SendError(self.bad_records[index], self.code, self.retriable)
        return SendError("other records of its batch were rejected")


@dataclass(frozen=True, slots=True)
class Hints:
    """What an interceptor needs."""

    topics: tuple[str, ...] = ("*",)
    """Topics that it is for, with * and ? as in a shell. The configuration can restrict it to some of them."""
    wants_records: bool = True
    """Whether it reads records. If not, `on_send` and `on_consume` are not called, and no batch is decompressed."""
    fail_closed: bool = False
    """Whether consumers get nothing that this interceptor failed on; set it if the interceptor hides data. It is then
    never disabled. Otherwise a failure is counted, and the records are forwarded without this interceptor's changes."""


class RecordBatch(NamedTuple):  # created for each hook and batch, at a third of the cost of a frozen dataclass
    """A batch of records, for hooks that take it as a whole."""

    topic: str
    partition: int
    records: Records
    context: Context


class AcknowledgedBatch(NamedTuple):
    """The result of sending a batch."""

    topic: str
    partition: int
    count: int  # type: ignore[assignment] # of records; tuple has a method of that name
    context: Context
    sent_at: int  # ms since 1970, by the context's clock: when the sidecar sent it to the broker
    base_offset: int = UNKNOWN
    log_append_time: int = UNKNOWN  # ms since 1970
    took_us: int = UNKNOWN  # microseconds since it was sent, by a monotonic clock


class Interceptor:
    """Base of both kinds. One object serves all connections."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings from the configuration file. Called once, before anything else.

        Raises:
            ValueError: a setting is invalid; the text names it and the remedy.
        """

    def hints(self) -> Hints:
        """What it needs. Called once, after `configure`."""
        return Hints()

    def metrics(self) -> Iterable[Metric]:
        """Its own metrics, for /metrics. Not part of KIP-42."""
        return ()

    async def resolve(self, key: object) -> None:
        """Fetch what `Unresolved` named. Any exception is logged; the hook is called again in any case."""
        raise NotImplementedError

    def files(self) -> Iterable[Path]:
        """Files and folders that `configure` has read: once one has changed, the configuration is loaded again, and the
        interceptor with it."""
        return ()

    def close(self) -> None:
        """Release what `configure` acquired. Called once, after the last request that uses it."""


class ProducerInterceptor(Interceptor):
    """Sees each produced record, and its result (KIP-42). An exception is counted and logged; it cannot fail a
    request.

    Interceptors should not depend on the changes of others before them: these may fail, and are then skipped. If keys
    or values are changed, then always in the same way, or log compaction keeps records of one key under several.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record, or `ProducerRecord.replace` of it; its headers may be changed in place.

        Topic and partition cannot be changed. A record that the client sends again, as after a lost connection, is
        intercepted again.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        """The record was written, or ``exception`` says why not. Must be fast: it delays the response.

        A consumer does not always see the same checksum: brokers may overwrite the timestamp (KIP-42).
        """

    def on_acknowledgement_with_headers(
        self, metadata: RecordMetadata, exception: Exception | None, headers: Headers
    ) -> None:
        """As `on_acknowledgement`, which this calls, with the headers as they were sent, read-only (KIP-512).

        Headers are kept only for interceptors that override this.
        """
        self.on_acknowledgement(metadata, exception)


class ConsumerInterceptor(Interceptor):
    """Sees records that a consumer reads (KIP-42), and offsets that a group commits (KIP-547).

    Interceptors should not depend on the changes of others before them: these may fail, and are then skipped.
    """

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        """Return the records, some changed with `ConsumerRecord.replace`, or dropped. None can be added or moved.

        Called for each batch that the client will see: not for control batches, nor for aborted transactions if the
        client reads only committed records. A record's checksum is not always that of the one that was sent: brokers
        may overwrite the timestamp (KIP-42).

        It may raise `Unresolved`: the consumer waits until ``resolve(key)`` has ended, then this and the interceptors
        before it are called again for the batch. A key that has been resolved and is raised again is a failure.
        """
        return records

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit instead of ``offsets``: changed, with some removed or added; empty: none.

        Metadata is one string, which the client may use too: append to it (KIP-547).
        """
        return offsets

    def on_commit(self, offsets: Offsets) -> None:
        """These offsets, as `pre_commit` returned them, have been committed. Not called for offsets that failed."""


# The second form, for interceptors whose loop over the records is compiled: a whole batch in one call. The hook for
# single records is then not called.


class SendsBatches(Protocol):
    """A second form of `on_send`: a produced batch in one call, for loops that are compiled."""

    def on_send_batch(self, batch: RecordBatch) -> Records:
        """Return the records, or `Records.with_payload` of them, with the same count."""
        ...


class ConsumesBatches(Protocol):
    """A second form of `on_consume`: a batch that is read in one call."""

    def on_consume_batch(self, batch: RecordBatch) -> Records:
        """Return the records, or `Records.with_payload` of them, with the same count."""
        ...


class AcknowledgesBatches(Protocol):
    """A second form of `on_acknowledgement`: what became of a produced batch in one call."""

    def on_acknowledgement_batch(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        """The batch was written, or ``exception`` says why not."""
