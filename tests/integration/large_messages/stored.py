"""What a log with large messages has, read from the broker by a plain client and put together by the rule alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from confluent_kafka import Message
from crc32c import crc32c
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front
from integration.scenarios.target import headers_of

LM = Struct(">b8s8siii")  # type, id, number of the segment, number of segments, size
LMR = Struct(">b16sI")  # version, topic id, checksum
DUMP = "org.apache.kafka.tools.DumpLogSegments"
BATCH = re.compile(
    r"^baseOffset: (?P<offset>\d+) lastOffset: \d+ count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+) .*?"
    r"producerId: (?P<pid>-?\d+) producerEpoch: (?P<epoch>-?\d+) .*? size: (?P<size>\d+) .*?"
    r"compresscodec: (?P<codec>\w+) .*?isvalid: (?P<valid>\w+)", re.MULTILINE
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a client of a sidecar sees it."""

    offset: int
    value: bytes | None
    slices: tuple[int, ...] = ()  # offsets


@dataclass(frozen=True, slots=True)
class Stored:
    records: list[Record]
    orphans: int  # slices that belong to no record

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


@dataclass(frozen=True, slots=True)
class LargeFront(Front):
    """A broker and a sidecar that splits."""

    java: Mapping[str, ToolHost] = field(default_factory=dict, hash=False)

    def assembled(self, topic: str, isolation: str = "read_uncommitted") -> Stored:
        """The records of a log, and the slices that are left over."""
        return assembled(self.log(topic, isolation=isolation))

    def batches(self, topic: str) -> list[dict[str, str]]:
        """The batches of a log as Kafka's DumpLogSegments shows them."""
        (segment,) = Path(self.cluster.node(1).folder, "data", f"{topic}-0").glob("*.log")
        found = [one.groupdict() for one in BATCH.finditer(self.java[NEWEST].run(DUMP, "--files", segment))]
        assert found
        return found


def assembled(log: Sequence[Message]) -> Stored:
    by_offset = {message.offset(): message for message in log}
    slices: set[int] = set()
    records: list[Record] = []
    for message in log:
        headers, offset, value = dict(headers_of(message)), message.offset(), message.value()
        assert offset is not None
        if "_lm" not in headers:
            records.append(Record(offset, value))
            continue
        kind, least, most, number, count, size = LM.unpack(headers["_lm"] or b"")
        assert kind == 2
        if "_lmr" not in headers:
            assert number < count - 1
            slices.add(offset)
            continue
        assert number == count - 1
        version, _, crc = LMR.unpack_from(headers["_lmr"] or b"")
        assert version == 1
        pointers = _offsets((headers["_lmr"] or b"")[LMR.size :])
        parts = [by_offset[pointer] for pointer in pointers]
        for at, part in enumerate(parts):
            assert LM.unpack(dict(headers_of(part))["_lm"] or b"") == (2, least, most, at, count, size)
        value = b"".join(part.value() or b"" for part in parts) + (value or b"")
        assert (len(value), crc32c(value)) == (size, crc)
        records.append(Record(offset, value, tuple(pointers)))
    used = {pointer for record in records for pointer in record.slices}
    assert used <= slices
    return Stored(records, len(slices - used))


def _offsets(data: bytes) -> list[int]:
    numbers: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value >> 1 ^ -(value & 1))
            value = shift = 0
    count, *deltas = numbers
    assert count == len(deltas)
    return [sum(deltas[: at + 1]) for at in range(count)]
