"""The contract of KIP-940 between the sidecar and those who write policies.

A policy is configured once, declares once what it needs to see, and then validates record by record. It is synchronous
and pure: what it would have to wait for it names in `Unresolved`, and it is called again when that has been fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka_sidecar.plugins.effects import Unresolved as Unresolved

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import BatchHeader, Record, Records

ALL = -1  # for hints: every byte
MAX_REJECTIONS = 1000  # of one batch: a megabyte can hold a million records, and a response would name each of them
WHOLE_BATCH = -1  # in place of a record's index: the batch itself is rejected, whatever its records are


class InvalidRecordError(Exception):
    """The policy rejects the record. The client gets the text, which must not quote the record's contents."""

    def __init__(self, message: str, reason: str = "rejected") -> None:
        super().__init__(message)
        self.reason = reason  # a label value of metrics: use few different ones


class UnavailableError(Exception):
    """The policy cannot decide now: what it needs cannot be fetched. Clients get REQUEST_TIMED_OUT with the
    text, and send the batch again; with ``on_error: open`` the record is accepted."""


class TopicMetadata(NamedTuple):  # created for each policy and batch, at a third of the cost of a frozen dataclass
    """The partition that a record is produced to (KIP-940 ``TopicMetadata``)."""

    topic: str
    partition: int
    topic_id: bytes  # 16 bytes; zeros where unknown: docs/reference/policies.md says when
    validation_policy: str  # the policy's part of the topic's ``record.validation.policy``


class TopicPolicy(NamedTuple):
    """The policy strings that are set on a topic with Kafka's own tools; None: nothing."""

    policy: str | None = None  # its record.validation.policy, in place of what the file says
    added: str | None = None  # besides that


NO_POLICY = TopicPolicy()


@dataclass(frozen=True, slots=True)
class Hints:
    """What a policy needs of a record (KIP-940 ``RecordIntrospectionHints``); nothing else is visible to it.

    Bytes are counted from the beginning: 0 none, n the first n, ``ALL`` every one. ``access_metadata``, an addition to
    the KIP, is for timestamp and sizes: the batch is decompressed, but no key, value or header is read.

    Without any hint the batch is not decompressed. With any, it is decompressed as a whole: a number of bytes limits
    what the policy sees, and saves the time to copy the rest, not the time to decompress it.
    """

    access_headers: bool = False
    access_key_bytes: int = 0
    access_value_bytes: int = 0
    access_metadata: bool = False

    @property
    def access_contents(self) -> bool:
        """Whether the batch must be decompressed; otherwise its header is enough."""
        return bool(self.access_headers or self.access_key_bytes or self.access_value_bytes or self.access_metadata)

    @property
    def access_values(self) -> bool:
        """Whether the decision depends on values or their sizes; otherwise on keys and headers alone."""
        return bool(self.access_value_bytes or self.access_metadata)

    def __or__(self, other: Hints) -> Hints:
        """What two policies need together."""
        return Hints(
            self.access_headers or other.access_headers,
            _larger(self.access_key_bytes, other.access_key_bytes),
            _larger(self.access_value_bytes, other.access_value_bytes),
            self.access_metadata or other.access_metadata,
        )


def _larger(one: int, other: int) -> int:
    return ALL if ALL in (one, other) else max(one, other)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a policy rejects one record, or the batch."""

    index: int  # of the record in the client's batch, or WHOLE_BATCH
    message: str  # for the client; quotes no contents
    reason: str = "rejected"


class RecordValidationPolicy:
    """Validates one record at a time. Extend it; only `validate` must be overridden."""

    records_at_once = 1000
    """A batch of more records is validated in a thread, which costs about 0.1 ms but does not delay other connections.
    Not part of the KIP."""
    bytes_at_once = 1 << 20
    """The same for the bytes of a batch when it is decompressed. Not part of the KIP."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings from the configuration file.

        Raises:
            ValueError: a setting is wrong; the text names it and the remedy.
        """

    def hints(self) -> Hints:
        """What `validate` reads. Called once, after `configure`."""
        return Hints(access_headers=True, access_key_bytes=ALL, access_value_bytes=ALL)

    def check(self, text: str) -> None:
        """Check the argument that a topic's ``record.validation.policy`` gives this policy, before it is used.

        Raises:
            ValueError: the argument is invalid; the text names the remedy.
        """

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        """Accept the record by returning. A policy without hints is called once for the batch, and sees no record.

        The record must not be kept after this returns.

        Raises:
            InvalidRecordError: the record is rejected, and with it the batch (KIP-467).
            Unresolved: the policy cannot decide before ``resolve(key)`` has finished.
        """
        raise NotImplementedError

    async def resolve(self, key: object) -> None:
        """Fetch what `Unresolved` named. Any exception counts as a failure of this policy."""
        raise NotImplementedError

    def files(self) -> Iterable[Path]:
        """Files and folders that `configure` has read: the configuration is loaded again when one has changed."""
        return ()

    def close(self) -> None:
        """Release what `configure` acquired."""


class BatchPolicy(Protocol):
    """The second form, for policies whose loop over the records is compiled: a whole batch in one call.

    `validate` of a policy that has this method is not called.
    """

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterable[Fault]:
        """The rejected records; empty: the batch is accepted. A generator is stopped after `MAX_REJECTIONS`."""
        ...


class HeaderPolicy(Protocol):
    """A third form, in addition to the others or instead of them: the batch's header is enough to reject it.

    Headers are validated before decompression; a rejected batch is not decompressed.
    """

    def validate_header(self, topic: TopicMetadata, header: BatchHeader) -> Iterable[Fault]:
        """What is wrong with the batch; empty: it is accepted."""
        ...
