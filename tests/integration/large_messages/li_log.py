"""Logs as producers of li-apache-kafka-clients write them, among them "SYN", the log of li's own consumer tests.

partition 0:  0 M0.0  1 M1.0  2 M2  3 M3.0  4 M1.1  5 M0.1  6 M3.1  7 M4  8 M5.0  9 M5.1
partition 1:  0 M6.0  1 M7.0, of messages that are never complete
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Producer
from integration.scenarios.target import LIMIT_S, SILENT

from kafka_sidecar.large_messages import payload_format
from kafka_sidecar.large_messages.lm_header import KEY, LEGACY_V2, V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment

SEGMENT_BYTES = 200
Headers = list[tuple[str, str | bytes | None]]
Format = Literal["v3", "payload", "payload without header"]


@dataclass(frozen=True, slots=True)
class Part:
    """A segment of a message; the segments are numbered from 0."""

    message: int
    number: int
    count: int = 2


Entry = Part | int | None  # None: a record with a null value; a number: a whole message that is small

SYN: Sequence[Entry] = (
    Part(0, 0), Part(1, 0), 2, Part(3, 0), Part(1, 1), Part(0, 1), Part(3, 1), 4, Part(5, 0), Part(5, 1),
)  # fmt: skip
NEVER_COMPLETE: Sequence[Entry] = (Part(6, 0), Part(7, 0))
VISIBLE = (2, 4, 5, 6, 7, 9)  # the offsets of messages in SYN
MESSAGES = {2: 2, 4: 1, 5: 0, 6: 3, 7: 4, 9: 5}  # by offset


def value(message: int, count: int = 2) -> bytes:
    """The whole value of a message in so many segments."""
    size = SEGMENT_BYTES * count - 50
    return (f"M{message} ".encode() * size)[:size]


def small(message: int) -> bytes:
    return f"M{message}".encode()


class LiProducer:
    """Writes segments past the sidecar, one batch for each."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "logger": SILENT, "linger.ms": 0})
        self._ids: dict[int, bytes] = {}  # of messages

    def write(self, entries: Iterable[Entry], partition: int = 0, form: Format = "v3", timestamp: int = 0) -> None:
        """One record after the other. With a timestamp (ms) each has one more than the one before."""
        for index, entry in enumerate(entries):
            key, content, headers = self._record(entry, form)
            time = timestamp + index if timestamp else 0  # 0: now
            self._producer.produce(self._topic, content, key, partition, timestamp=time, headers=headers)
            assert self._producer.flush(LIMIT_S) == 0

    def _record(self, entry: Entry, form: Format) -> tuple[bytes, bytes | None, Headers]:
        if not isinstance(entry, Part):
            return b"k", small(entry) if entry is not None else None, []
        message_id = self._ids.setdefault(entry.message, uuid.uuid4().bytes)
        whole = value(entry.message, entry.count)
        at = entry.number * SEGMENT_BYTES
        segment = Segment(message_id, entry.number, entry.count, len(whole), whole[at : at + SEGMENT_BYTES])
        kind = V3 if form == "v3" else LEGACY_V2
        header = LmHeader(kind, message_id, entry.number, entry.count, len(whole))
        content = bytes(segment.payload) if form == "v3" else payload_format.serialize(segment)
        return b"k", content, [] if form == "payload without header" else [(KEY.decode(), header.encode())]
