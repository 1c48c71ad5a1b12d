"""The ordinary scenario: what the producers of a run send.

Small and large records, batches in which all records or some are concerned, every codec, null keys, tombstones,
transactions that are committed and aborted.
"""

from __future__ import annotations

import base64
import itertools
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from integration.together.model import SCHEMA_ID, Model
from integration.together.records import Batch, Headers, Record, Script, Transaction

PARTITIONS = 2
MAX_MESSAGE_BYTES = 100_000  # of the topic
LARGE_BYTES = 200_000  # of the smallest large value; three quarters of it once it is compressed
SEGMENT_BYTES = 60_000


@dataclass(slots=True)
class Writer:
    """Makes records: numbered, valid JSON, the same in every run."""

    model: Model
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _random: random.Random = field(default_factory=lambda: random.Random(30))

    def small(self, does: str = "", key: bytes | None = b"k") -> Record:
        number = next(self._numbers)
        return Record(key, b'{"number": %d}' % number, self._headers(number, does))

    def large(self, does: str = "") -> Record:
        """One whose value is larger than the topic allows, whatever the codec."""
        number = next(self._numbers)
        text = base64.b64encode(self._random.randbytes(LARGE_BYTES * 3 // 4 + 3000 * (number % 7)))
        return Record(b"large", b'{"number": %d, "text": "%s"}' % (number, text), self._headers(number, does))

    def invalid(self) -> Record:
        """Not JSON."""
        number = next(self._numbers)
        return Record(b"k", b'{"number": %d' % number, self._headers(number, ""))

    def unmarked(self) -> Record:
        """Without the header that the topic's own policy requires."""
        return Record(b"k", b'{"number": %d}' % next(self._numbers), (("other", b"1"),))

    def tombstone(self, does: str = "") -> Record:
        return Record(b"gone", None, self._headers(next(self._numbers), does))

    def batches(self, partition: int, *records: Record) -> tuple[Batch, ...]:
        """One batch; where large values are li's, each of these is one of its own, in segments."""
        if not self.model.is_li:
            return (Batch(partition, records),)
        small = tuple(one for one in records if not is_large(one))
        large = [Batch(partition, (one,), self._segments(one)) for one in records if is_large(one)]
        return (*large, *([Batch(partition, small)] if small else []))

    def _segments(self, record: Record) -> tuple[Record, ...]:
        """As producers of li-apache-kafka-clients write them: header `_lm`, type V3."""
        value = record.value or b""
        parts = [value[at : at + SEGMENT_BYTES] for at in range(0, len(value), SEGMENT_BYTES)]
        name = uuid.UUID(int=self._random.getrandbits(128)).bytes
        lm = b"\2" + name[8:] + name[:8]
        headers = [
            lm + b"".join(number.to_bytes(4, "big") for number in (index, len(parts), len(value)))
            for index in range(len(parts))
        ]
        return tuple(
            Record(record.key, part, (*record.headers, ("_lm", header)))
            for part, header in zip(parts, headers, strict=True)
        )

    def _headers(self, number: int, does: str) -> Headers:
        marks: Headers = (("do", does.encode()),) if does else ()
        schema: Headers = (SCHEMA_ID,) if "schema" in self.model.features else ()
        return (("id", b"%d" % number), *marks, *schema, ("null", None), ("id", b""))


def is_large(record: Record) -> bool:
    return len(record.value or b"") >= LARGE_BYTES


def scripts(model: Model) -> list[Script]:
    """What each producer sends; all of them at the same time."""
    new = Writer(model)
    small, large, gone = new.small, new.large, new.tombstone

    def batches(partition: int, *records: Record) -> tuple[Batch, ...]:
        return new.batches(partition, *records)

    def large_of_commit() -> tuple[Record, ...]:
        """A transaction in which a batch was rejected cannot be committed."""
        return (large(),) if model.stores_large else ()

    return [
        Script("plain", "librdkafka", "none", (
            *batches(0, small(), small("hide"), small("edit"), small("fail")),
            *batches(0, small(), large(), small("hide")),
            *batches(1, gone(), small(key=None), gone("hide")),
            *batches(0, large("edit")),
        )),
        Script("lz4", "librdkafka", "lz4", (
            *batches(0, new.invalid(), small(), new.invalid()),
            *batches(1, small(), new.invalid()),
            *batches(0, new.unmarked()),
            *batches(1, small(), small(), small("edit"), small("hide")),
        )),
        Script("aborted", "librdkafka", "zstd", (
            Transaction((*batches(0, small(), small("hide")), *batches(1, large())), "abort"),
        )),
        Script("zstd", "librdkafka", "zstd", (
            Transaction((
                *batches(1, small("fail"), small()),
                *batches(0, *large_of_commit(), small("edit")),
            ), "commit"),
        )),
        Script("snappy", "java", "snappy", (
            *batches(1, small("hide"), small("hide")),
            *batches(1, large("hide")),
            *batches(1, new.invalid()),
            *batches(0, small("edit", None), gone(), small("fail")),
        )),
        Script("committed", "java", "none", (
            Transaction((
                *batches(0, small("edit"), small()),
                *(batches(1, *alone) if (alone := large_of_commit()) else ()),
                *batches(1, small()),
            ), "commit"),
            Transaction(batches(0, small(), small("edit")), "abort"),
        )),
        Script("gzip", "aiokafka", "gzip", (
            *batches(0, small(), small("fail"), small("hide")),
            *batches(1, new.unmarked(), small()),
            *batches(1, large("fail"), small("edit")),
        )),
    ]  # fmt: skip


def last(model: Model) -> Script:
    """What is sent once all others have: the ends of the partitions, one of which interceptors may hide."""
    new = Writer(model, itertools.count(1000))
    return Script("last", "librdkafka", "gzip", (
        *new.batches(0, new.small()),
        *new.batches(1, new.small(), new.small("hide")),
    ))  # fmt: skip
