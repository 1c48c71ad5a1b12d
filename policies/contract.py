"""The contract of KIP-940 between the sidecar and those who write policies.

A policy is told once how it is configured, says once what it needs to see, and then judges record by record. It is
synchronous and pure: what it has to wait for it names in `Unresolved`, and is asked again when that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import BatchHeader, Record, Records

ALL = -1  # for hints: every byte
MAX_REJECTIONS = 1000  # of one batch: a batch of a megabyte can hold millions of records, and an answer would name each
WHOLE_BATCH = -1  # in place of a record's index: the batch itself is refused, whatever its records are


class InvalidRecordError(Exception):
    """The policy refuses the record. The text is what the client is told: it must not quote the record's contents."""

    def __init__(self, message: str, reason: str = "refused") -> None:
        super().__init__(message)
        self.reason = reason  # one of few words: a label value of a metric


class Unresolved(Exception):  # noqa: N818 - not an error: the policy cannot say yet
    """The policy needs something that is not here, such as a schema; ``resolve(key)`` of the policy fetches it."""

    def __init__(self, key: object) -> None:
        super().__init__(key)
        hash(key)  # one fetch at a time is made for equal keys: one that is not hashable is a bug of who raises this
        self.key = key


class TopicMetadata(NamedTuple):  # one is made for each policy and batch: a third of what a frozen dataclass costs
    """Where a record is to be written to (KIP-940 ``TopicMetadata``)."""

    topic: str
    partition: int
    topic_id: bytes  # 16 bytes, zeros where the client named the topic
    validation_policy: str  # the topic's ``record.validation.policy``; its meaning is the policy's own


@dataclass(frozen=True, slots=True)
class Hints:
    """What a policy needs of a record (KIP-940 ``RecordIntrospectionHints``); anything else it may not see.

    Bytes are counted from the beginning: 0 none, n at least n, ``ALL`` every one. ``access_metadata`` is not the KIP's:
    a record's timestamp and sizes, for which the batch has to be walked but nothing of the record is read.
    """

    access_headers: bool = False
    access_key_bytes: int = 0
    access_value_bytes: int = 0
    access_metadata: bool = False

    @property
    def access_contents(self) -> bool:
        """Whether the records must be decompressed at all: without it the batch's own header is enough."""
        return bool(self.access_headers or self.access_key_bytes or self.access_value_bytes or self.access_metadata)

    def __or__(self, other: Hints) -> Hints:
        """What two policies need together."""
        return Hints(
            self.access_headers or other.access_headers,
            _more(self.access_key_bytes, other.access_key_bytes),
            _more(self.access_value_bytes, other.access_value_bytes),
            self.access_metadata or other.access_metadata,
        )


def _more(one: int, other: int) -> int:
    return ALL if ALL in (one, other) else max(one, other)


@dataclass(frozen=True, slots=True)
class Fault:
    """One record that a policy refuses, or the batch."""

    index: int  # of the record in the client's batch, or WHOLE_BATCH
    message: str  # for the client; quotes no contents
    reason: str = "refused"


class RecordValidationPolicy:
    """Judges one record at a time. Subclass it; only `validate` must be given."""

    records_at_once = 1000
    """A batch of more records is judged in a thread, so that it holds up no other connection: that costs a batch about
    0.1 ms. Not the KIP's."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings from the configuration file.

        Raises:
            ValueError: a setting is wrong; the text names it and the remedy.
        """

    def hints(self) -> Hints:
        """What `validate` looks at. Asked once, after `configure`."""
        return Hints(access_headers=True, access_key_bytes=ALL, access_value_bytes=ALL)

    def check(self, text: str) -> None:
        """Look at a topic's ``record.validation.policy`` before it is used.

        Raises:
            ValueError: this policy cannot mean anything by it.
        """

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        """Let the record pass by returning. Without any hint it is asked once for the batch, and sees no record.

        The record may be looked at until this returns, not kept.

        Raises:
            InvalidRecordError: the whole batch of this partition is refused (KIP-467).
            Unresolved: it cannot be said before ``resolve(key)`` is done.
        """
        raise NotImplementedError

    async def resolve(self, key: object) -> None:
        """Fetch what an `Unresolved` asked for. Whatever it raises counts as this policy's failure."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what `configure` took."""


class BatchPolicy(Protocol):
    """The second form, for policies whose loop over the records is compiled: a whole batch in one call.

    A policy that has this method is never asked record by record.
    """

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterable[Fault]:
        """The records that are refused; none: all may pass. Written with ``yield`` it stops where enough are known."""
        ...


class HeaderPolicy(Protocol):
    """A third form, beside or instead of the others: what the batch's own header says is enough to refuse it.

    All these are asked before anything is decompressed; where one refuses the batch nothing is.
    """

    def validate_header(self, topic: TopicMetadata, header: BatchHeader) -> Iterable[Fault]:
        """What is wrong with the batch; empty: it may pass."""
        ...
