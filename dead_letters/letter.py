"""A dead letter: a record as its producer has sent it, followed by headers that say why it was rejected.

Key, value, timestamp and the headers of the record are stored as they came. After its own headers follow those of
`Name`, in that order; the last one counts the record's own, so that they are found again whatever they are called.
Three have the names that Kafka gives to the dead letters of share groups (KIP-1191), with Kafka's meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_sidecar.codec.records import Header

REPLAYED = "kafka_sidecar.dlq.replayed"  # a header of a record that was replayed: its rejection id
REST_OF_BATCH = "rest_of_batch"  # the reason of a record that is rejected with another one of its batch (KIP-467)


class Name(StrEnum):
    """Headers of a dead letter, in their order. All values are text in UTF-8; one whose value is unknown is absent."""

    TOPIC = "__dlq.errors.topic"  # that the record was sent to
    PARTITION = "__dlq.errors.partition"
    MESSAGE = "__dlq.errors.message"  # the client got the same
    POLICY = "kafka_sidecar.dlq.policy"
    REASON = "kafka_sidecar.dlq.reason"
    MODE = "kafka_sidecar.dlq.mode"  # "enforce"; "shadow": the record is stored in its topic, too
    REJECTION_ID = "kafka_sidecar.dlq.rejection_id"  # of its batch
    INDEX = "kafka_sidecar.dlq.index"  # of the record in its batch
    REJECTED_AT = "kafka_sidecar.dlq.rejected_at"  # milliseconds since 1970
    CLIENT_ID = "kafka_sidecar.dlq.client_id"
    PRINCIPAL = "kafka_sidecar.dlq.principal"
    PRODUCER_ID = "kafka_sidecar.dlq.producer_id"  # of an idempotent producer, as the next two
    PRODUCER_EPOCH = "kafka_sidecar.dlq.producer_epoch"
    SEQUENCE = "kafka_sidecar.dlq.sequence"  # of the record
    OWN_HEADERS = "kafka_sidecar.dlq.own_headers"  # the number of headers that the record had itself


_NAMES = {name.encode(): name for name in Name}
_LAST = Name.OWN_HEADERS.encode()


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a record was rejected, and from whom it came."""

    topic: str
    partition: int
    message: str
    policy: str
    reason: str
    mode: str
    rejection_id: str
    index: int
    rejected_at: int  # milliseconds since 1970
    client_id: str | None = None
    principal: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None

    def headers(self, own: int) -> list[Header]:
        """The headers that follow the record's own, which are ``own`` in number."""
        values = (
            self.topic, self.partition, self.message, self.policy, self.reason, self.mode, self.rejection_id,
            self.index, self.rejected_at, self.client_id, self.principal, self.producer_id, self.producer_epoch,
            self.sequence, own,
        )  # fmt: skip
        pairs = zip(Name, values, strict=True)
        return [Header(name, str(value).encode("utf-8", "replace")) for name, value in pairs if value is not None]


class NotALetterError(ValueError):
    """A record of a dead letter topic that is none of ours; the text says what is missing."""


def read_headers(headers: Sequence[Header]) -> tuple[list[Header], Reasons]:
    """The record's own headers, and why it was rejected. Headers that others have appended are left away.

    Raises NotALetterError.
    """
    end = next((at for at in range(len(headers) - 1, -1, -1) if headers[at].key_bytes == _LAST), None)
    if end is None:
        raise NotALetterError(f"the header {Name.OWN_HEADERS} is missing")
    own = _number(headers[end])
    if not 0 <= own <= end:
        raise NotALetterError(f"{Name.OWN_HEADERS} is {own}, and {end} headers are before it")
    texts = {name: _text(header) for header in headers[own:end] if (name := _NAMES.get(header.key_bytes)) is not None}
    try:
        return list(headers[:own]), _reasons(texts)
    except KeyError as error:
        raise NotALetterError(f"the header {error.args[0]} is missing") from None
    except ValueError as error:
        raise NotALetterError(str(error)) from None


def is_replayed(headers: Iterable[Header]) -> bool:
    """Whether a record has been a dead letter before: it becomes none a second time."""
    name = REPLAYED.encode()
    return any(header.key_bytes == name for header in headers)


def _reasons(texts: dict[Name, str]) -> Reasons:
    def optional(name: Name) -> int | None:
        return int(texts[name]) if name in texts else None

    return Reasons(
        texts[Name.TOPIC], int(texts[Name.PARTITION]), texts[Name.MESSAGE], texts[Name.POLICY], texts[Name.REASON],
        texts[Name.MODE], texts[Name.REJECTION_ID], int(texts[Name.INDEX]), int(texts[Name.REJECTED_AT]),
        texts.get(Name.CLIENT_ID), texts.get(Name.PRINCIPAL), optional(Name.PRODUCER_ID),
        optional(Name.PRODUCER_EPOCH), optional(Name.SEQUENCE),
    )  # fmt: skip


def _text(header: Header) -> str:
    return (header.value or b"").decode("utf-8", "replace")


def _number(header: Header) -> int:
    try:
        return int(_text(header))
    except ValueError:
        raise NotALetterError(f"{header.key} is no number") from None
