"""Dead letters as they are read, which of them are meant, and the records that they become again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_sidecar.codec.records import Header, Record
from kafka_sidecar.dead_letters.letter import REPLAYED, Reasons, read_headers

SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, and where it is in its topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]  # the record's own
    timestamp: int  # ms since 1970, as the record's producer has set it
    reasons: Reasons

    @property
    def is_stored(self) -> bool:
        """Whether the record is in its topic, too."""
        return self.reasons.mode == SHADOW


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record to be sent."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp: int  # ms since 1970

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        parts = [self.key, self.value, *(part for one in self.headers for part in (one.key_bytes, one.value))]
        return sum(len(part) for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters are meant. An empty set, or None: any."""

    topics: frozenset[str] = frozenset()  # that the records were sent to
    policies: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    rejection_ids: frozenset[str] = frozenset()
    since: int | None = None  # ms since 1970, of the rejection
    until: int | None = None  # not included
    with_stored: bool = True  # also those whose record is in its topic, too

    def takes(self, letter: Letter) -> bool:
        why = letter.reasons
        named = (
            (self.topics, why.topic), (self.policies, why.policy), (self.reasons, why.reason),
            (self.rejection_ids, why.rejection_id),
        )  # fmt: skip
        return (
            all(not wanted or value in wanted for wanted, value in named)
            and (self.since is None or why.rejected_at >= self.since)
            and (self.until is None or why.rejected_at < self.until)
            and (self.with_stored or not letter.is_stored)
        )


def read_letter(record: Record, offset: int) -> Letter:
    """The letter in a record. Raises NotALetterError."""
    own, reasons = read_headers(record.headers)
    return Letter(offset, record.key, record.value, tuple(own), record.timestamp, reasons)


def record_again(letter: Letter) -> OutgoingRecord:
    """The record as its producer has sent it, to the same partition, without the header that says it is replayed."""
    why = letter.reasons
    return OutgoingRecord(why.topic, why.partition, letter.key, letter.value, letter.headers, letter.timestamp)


def marked(headers: Sequence[Header], rejection_id: str) -> tuple[Header, ...]:
    """Headers of a record that is replayed: if it is rejected it becomes no dead letter a second time."""
    name = REPLAYED.encode()
    return (*(one for one in headers if one.key_bytes != name), Header(name, rejection_id.encode("utf-8", "replace")))
