"""What each client must get: from what was sent, the offsets that producers got, and the features that are on.

It imports nothing of the sidecar, and knows nothing of how it works: only what its documentation promises.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from integration.together.records import Batch, Headers, Record, Seen, Sent

Segments = Mapping[tuple[int, int], int]  # by partition and offset of the carrier
Look = tuple[str, str, str | None, int]  # hook, client id, header id, size of the value
Letter = tuple[int, bytes | None, bytes | None, Headers]  # with the partition that it was sent to
Isolation = Literal["read_committed", "read_uncommitted"]
LARGE = ("slices", "objects", "li")
MAX_BATCH_BYTES, MAX_RECORDS = 100_000, 3
INVALID, OTHERS_INVALID, TOO_LARGE = "INVALID_RECORD", "OTHERS_INVALID", "MESSAGE_TOO_LARGE"
NOT_AS_REQUIRED = "POLICY_VIOLATION"
MARKED = ("kafka_sidecar.invalid", b"undamaged/header_value")
SENT, TRIED, CONSUMED = ("sent", b"sidecar"), ("tried", b"1"), ("consumed", b"sidecar")
# The schema of all values, by its GUID: an object with a number.
SCHEMA_ID = ("__value_schema_id", b"\1" + bytes(range(16)))
SCHEMA = '{"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}}'
EDITED = b" "  # is added to a value; it stays JSON


@dataclass(frozen=True)
class Model:
    """The expectations of one run."""

    features: frozenset[str]

    @property
    def is_li(self) -> bool:
        return "li" in self.features

    @property
    def is_validated(self) -> bool:
        """Whether values must be JSON."""
        if "schema" in self.features:  # set on the topic, it applies besides what else is set there
            return True
        return "json" in self.features and "topic_configs" not in self.features  # a topic's own config wins

    @property
    def stores_large(self) -> bool:
        """Whether a large record is accepted. A segment of li is not JSON."""
        return any(name in self.features for name in LARGE) and not (self.is_li and self.is_validated)

    # Responses to producers.

    def is_invalid(self, record: Record) -> bool:
        """What the policy says of a record."""
        names = {name for name, _ in record.headers}
        if "topic_configs" in self.features and "id" not in names:
            return True
        if "schema" in self.features and record.value is not None and SCHEMA_ID[0] not in names:
            return True
        return self.is_validated and not _is_json(record.value)

    def errors(self, sent: Sent) -> list[str]:
        """Of each record, empty where it is acknowledged: the error that the producer gets."""
        batch = sent.batch
        records = batch.segments or batch.records
        if "habits" in self.features and not batch.segments and len(records) > MAX_RECORDS:
            return [NOT_AS_REQUIRED] * len(records)  # before any policy is asked
        invalid = [self.is_invalid(one) for one in records]
        if any(invalid):
            if batch.segments:
                return [INVALID]
            # Java tells which ones are invalid, librdkafka if there are several (KIP-467), aiokafka never.
            one_by_one = sent.library == "java" or (sent.library == "librdkafka" and sum(invalid) > 1)
            return [INVALID if bad or not one_by_one else OTHERS_INVALID for bad in invalid]
        if not batch.segments and _size(batch) > MAX_BATCH_BYTES and not self.stores_large:
            return [TOO_LARGE] * len(records)
        return [""] * len(batch.records)

    def letters(self, sent: Iterable[Sent]) -> Counter[Letter]:
        """The records in the dead letter topic: all of each batch of which a policy rejects one."""
        found: Counter[Letter] = Counter()
        for one in sent:
            batch = one.batch
            if batch.segments and self.is_validated:
                continue  # rejected before any policy, which could not read what the segments are of
            records = batch.segments or batch.records
            if any(self.is_invalid(record) for record in records):
                found.update((batch.partition, one.key, one.value, one.headers) for one in records)
        return found

    @property
    def leaves_gaps(self) -> bool:
        """Whether there are slices or segments between records."""
        return "slices" in self.features or self.is_li

    # What interceptors and readers get.

    def produced(self, record: Record) -> Record:
        """As interceptors of producers leave it."""
        added: Headers = ()
        if "changes" in self.features:
            added += (SENT,)
        if "fails" in self.features and record.does != "fail":
            added += (TRIED,)
        return Record(record.key, record.value, (*record.headers, *added))

    def checked(self, record: Record) -> Record | None:
        """As the policy of consumers leaves it, which sees what is stored; None: hidden."""
        if record.does != "fail":
            return record
        if "consume_hide" in self.features:
            return None
        marks = (MARKED,) if "consume_mark" in self.features else ()
        return Record(record.key, record.value, (*record.headers, *marks))

    def consumed(self, record: Record) -> Record | None:
        """As interceptors of consumers leave it; None: hidden."""
        if "hides" in self.features and record.does == "hide":
            return None
        if "changes" not in self.features:
            return record
        is_edited = record.does == "edit" and record.value is not None
        value = (record.value or b"") + EDITED if is_edited else record.value
        return Record(record.key, value, (*record.headers, CONSUMED))

    def delivered(self, sent: Iterable[Sent], isolation: Isolation) -> list[Seen]:
        """What a reader of the whole topic gets, by partition and offset."""
        found = []
        for partition, offset, record, batch in stored(sent):
            if isolation == "read_committed" and batch.end == "abort":
                continue
            checked = self.checked(self.produced(record))
            if checked is not None and (left := self.consumed(checked)) is not None:
                found.append(Seen.of(partition, offset, left.key, left.value, left.headers))
        return sorted(found, key=lambda one: (one.partition, one.offset))

    def looked_at(self, sent: Iterable[Sent], readers: Mapping[str, Isolation]) -> Counter[Look]:
        """What an interceptor that is the first one is shown of readers, by client id, and that each of it once."""
        found: Counter[Look] = Counter()
        for _, _, record, batch in stored(sent):
            if self.checked(record) is None:
                continue
            size = -1 if record.value is None else len(record.value)
            name = next(((content or b"").decode() for key, content in record.headers if key == "id"), None)
            for client, isolation in readers.items():
                if isolation == "read_uncommitted" or batch.end != "abort":
                    found["on_consume", client, name, size] += 1
        return found

    def segments(self, partition: int, offset: int, record: Record, batch: Sent, slices: Segments) -> tuple[int, int]:
        """Of a record that is stored: 1 if it is a large message, and the segments in the log that it is stored in."""
        if batch.batch.segments:
            return 1, len(batch.batch.segments)
        if len(record.value or b"") <= MAX_BATCH_BYTES:
            return 0, 0
        return (1, 0) if "objects" in self.features else (1, slices.get((partition, offset), 0))

    @staticmethod
    def ends(sent: Sequence[Sent]) -> dict[int, int]:
        """The position of a reader that has read everything."""
        last = {partition: (offset, batch.end) for partition, offset, _, batch in sorted(stored(sent), key=_place)}
        assert {end for _, end in last.values()} == {None}, "a marker is last"
        return {partition: offset + 1 for partition, (offset, _) in sorted(last.items())}


def stored(sent: Iterable[Sent]) -> list[tuple[int, int, Record, Sent]]:
    """Partition, offset, record and batch of what was acknowledged."""
    return [
        (one.batch.partition, outcome.offset, record, one)
        for one in sent
        for record, outcome in zip(one.batch.records, one.outcomes, strict=True)
        if not outcome.error
    ]


def _place(one: tuple[int, int, Record, Sent]) -> tuple[int, int]:
    return one[:2]


def _size(batch: Batch) -> int:
    """Of values; all large ones are far above the limit with every codec, and all small ones together far below."""
    return sum(len(record.value or b"") for record in batch.records)


def _is_json(value: bytes | None) -> bool:
    if value is None:
        return True
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
