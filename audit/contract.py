"""The contract of auditors: li-apache-kafka-clients' own, and the calls that the proxy makes, one for each batch.

An auditor counts; it cannot fail or change a request. It is called on the event loop for every batch that passes, so
each call must be fast, about a microsecond, and must never wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from kafka_sidecar.audit.counters import BatchCount, DeliveredCalls, FetchCounter, ProduceCounter, ProducedCalls

NO_TIMESTAMP = -1  # of a batch, as in Kafka
NO_OFFSET = -1  # where the response does not name it
SEVERAL_GROUPS = "(several)"  # in place of the group of a reader whose client id and address belong to several


class AuditType(str):
    """What happened to the records. Auditors may define further types: ``AuditType("EXPIRED")``."""

    __slots__ = ()
    ATTEMPT: ClassVar[AuditType]
    """A client sent them."""
    SUCCESS: ClassVar[AuditType]
    """A broker acknowledged them, or a client got them."""
    FAILURE: ClassVar[AuditType]
    """They were rejected."""


AuditType.ATTEMPT = AuditType("ATTEMPT")
AuditType.SUCCESS = AuditType("SUCCESS")
AuditType.FAILURE = AuditType("FAILURE")


class Result(Enum):
    """How sending a batch ended, as the client sees it."""

    ACKED = "acked"
    UNCONFIRMED = "unconfirmed"  # acks=0: forwarded, there is no response
    REJECTED = "rejected"  # by the sidecar
    FAILED = "failed"  # the broker responded with an error
    UNKNOWN = "unknown"  # the connection ended before the response


class TopicName(str):
    """The name of a topic that knows the topic's id. One that is created again under the name is another topic: names
    with different ids are not equal."""

    __slots__ = ("topic_id",)
    topic_id: bytes
    """16 bytes."""

    def __new__(cls, name: str, topic_id: bytes) -> TopicName:
        made = super().__new__(cls, name)
        made.topic_id = topic_id
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TopicName) and other.topic_id != self.topic_id:
            return False
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


@dataclass(frozen=True, slots=True)
class AuditedClient:
    """Who sends or reads. The proxy creates one for a connection, and another if client id or principal change."""

    client_id: str | None
    principal: str | None
    host: str | None
    key: str = field(init=False, repr=False, compare=False)
    """Client id and principal as one text: its hash is computed once, so it is a fast key of dicts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.client_id!r} {self.principal!r}")


@dataclass(frozen=True, slots=True)
class LargeMessages:
    """The large messages of a batch: those that the sidecar has split, stored as objects or assembled for this client.

    Client to last offset are those of the call for the batch, `BatchAuditor.produced`, `delivered` or `acquired`.
    """

    client: AuditedClient
    group: str | None  # None for a batch that is produced
    topic: str
    partition: int
    timestamp: int  # the batch's greatest, ms since 1970, or `NO_TIMESTAMP`
    first_offset: int  # of the batch, or `NO_OFFSET`
    last_offset: int
    messages: tuple[tuple[int, int], ...]
    """Of each its offset, `NO_OFFSET` if the batch is produced, and the number of its segments in the log: slices and
    the last piece, which the client's own record carries; 0 if it is stored as an object."""


class Auditor:
    """li's `Auditor`: a call for each record, or for several of one topic and timestamp. Thread-safe."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings: li's by li's names, ``emitter_id``, ``cluster``, ``dc``, ``app``, and the auditor's own.

        Raises:
            ValueError: a setting is invalid; the text names it and the remedy.
        """

    def start(self) -> None:
        """Begin. Called once, before the first record; a second call does nothing."""

    def audit_token(self, key: bytes | None, value: bytes | None) -> object | None:
        """What `record` needs of a key and a value. The proxy sees neither: it calls this with None for both."""
        return None

    def record(
        self,
        token: object | None,
        topic: str,
        timestamp: int | None,
        message_count: int,
        bytes_count: int,
        audit_type: AuditType,
    ) -> None:
        """Count.

        Args:
            token: what `audit_token` returned.
            topic: of the records.
            timestamp: event time, ms since 1970; None if there is none.
            message_count: number of records.
            bytes_count: their size; from the proxy the size of their batch on the wire.
            audit_type: what happened to them.
        """

    def close(self, timeout: float | None = None) -> None:
        """Report what is counted and end, within ``timeout`` seconds if given. A second call does nothing."""


class BatchAuditor(Auditor):
    """The calls of the proxy, with positional arguments. These defaults make li's calls of them."""

    counting: AbstractContextManager[object] = nullcontext()
    """Held while `produce_counter` and `fetch_counter` are used, once for many batches: a lock, for an auditor whose
    counters share something with another thread."""

    def produced(self, client: AuditedClient, topic: str, partition: int, batch: BatchCount) -> None:
        """A client sent a batch, and this is how it ended.

        Args:
            client: who sent it.
            topic: by name; a `TopicName` where its id is known.
            partition: number.
            batch: what it has, and its result.
        """
        token, event_time = self.audit_token(None, None), _event_time(batch)
        self.record(token, topic, event_time, batch.count, batch.size, AuditType.ATTEMPT)
        audit_type = TYPE_OF_RESULT[batch.result]
        if audit_type is not None:
            self.record(token, topic, event_time, batch.count, batch.size, audit_type)

    def duplicated(
        self, client: AuditedClient, topic: str, partition: int, batch: BatchCount, is_certain: bool
    ) -> None:
        """A client got no response to a batch, sent it again, and this copy was acknowledged: after its `produced`.

        Args:
            batch: the later copy; it has no latency.
            is_certain: whether both copies were acknowledged. Otherwise the earlier one may never have been stored.

        The others are those of `produced`. Nothing by default.
        """

    def delivered(
        self, client: AuditedClient, group: str | None, topic: str, partition: int, batch: BatchCount
    ) -> None:
        """A client was sent a batch that it fetched.

        Args:
            client: who fetched it.
            group: its consumer group, None if no request has named one, or `SEVERAL_GROUPS`.
            topic: by name.
            partition: number.
            batch: what the client gets of it.
        """
        self.record_read(topic, batch, AuditType.SUCCESS)

    def committed(self, client: AuditedClient, group: str, topic: str, partition: int, offset: int) -> None:
        """A group committed an offset, and the broker accepted it. li does not audit commits: nothing by default."""

    def acquired(self, client: AuditedClient, group: str, topic: str, partition: int, batch: BatchCount) -> None:
        """A member of a share group was sent records that it has acquired (KIP-932).

        Args:
            group: the share group.
            batch: of it what the member has acquired: first and last offset, and all between them.

        The others are those of `delivered`.
        """
        self.record_read(topic, batch, AuditType.SUCCESS)

    def accepted(
        self, client: AuditedClient, group: str, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> None:
        """A member of a share group has accepted these records, and the broker has taken it. Nothing by default."""

    def produced_large(self, large: LargeMessages, result: Result) -> None:
        """Some messages of a batch are large. Called just before `produced` is, with its result; nothing by default."""

    def delivered_large(self, large: LargeMessages) -> None:
        """As `produced_large`, before `delivered`: the messages that the client gets to see."""

    def acquired_large(self, large: LargeMessages, deliveries: int) -> None:
        """As `delivered_large`, before `acquired`, with its deliveries."""

    def produce_counter(self, client: AuditedClient, topic: str, partition: int) -> ProduceCounter:
        """What is called for what this client sends to this partition. It is kept for as long as the connection."""
        return ProducedCalls(self.produced, client, topic, partition)

    def fetch_counter(self, client: AuditedClient, group: str | None, topic: str, partition: int) -> FetchCounter:
        """What is called for what this client reads of this partition, for as long as its group is the same."""
        return DeliveredCalls(self.delivered, client, group, topic, partition)

    def record_read(self, topic: str, batch: BatchCount, audit_type: AuditType) -> None:
        """Make li's call for a batch that a client was sent."""
        token = self.audit_token(None, None)
        self.record(token, topic, _event_time(batch), batch.count, batch.size, audit_type)


TYPE_OF_RESULT: Mapping[Result, AuditType | None] = {
    Result.ACKED: AuditType.SUCCESS,
    Result.UNCONFIRMED: AuditType.SUCCESS,
    Result.REJECTED: AuditType.FAILURE,
    Result.FAILED: AuditType.FAILURE,
    Result.UNKNOWN: None,
}
"""li's type of each result; None: it stays an ATTEMPT without a result."""


class RecordCalls(BatchAuditor):
    """Makes li's calls to an auditor that does not take batches."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor
        self.audit_token = auditor.audit_token  # type: ignore[method-assign]
        self.record = auditor.record  # type: ignore[method-assign]

    def start(self) -> None:
        self._auditor.start()

    def close(self, timeout: float | None = None) -> None:
        self._auditor.close(timeout)


def _event_time(batch: BatchCount) -> int | None:
    return None if batch.timestamp == NO_TIMESTAMP else batch.timestamp
