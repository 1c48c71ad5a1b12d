"""Two producers of librdkafka whose transactions overlap, with large messages that the sidecar splits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from integration.front import Front
from integration.interception.reads import Isolation
from integration.scenarios.target import LIMIT_S, SILENT

LIMIT = 20_000  # bytes of a batch
LARGE_BYTES = 70_000
CONTROL = 4  # records at the ends of the transactions

Records = list[tuple[int, bytes]]


@dataclass
class Transactional:
    """A producer, and what it has sent."""

    front: Front
    topic: str
    id: str
    sent: Records = field(default_factory=list)  # in this transaction

    def __post_init__(self) -> None:
        self._producer = Producer({
            "bootstrap.servers": self.front.sidecar.bootstrap, "logger": SILENT, "linger.ms": 200,
            "transactional.id": f"{self.topic}-{self.id}", "message.max.bytes": 10 * LARGE_BYTES,
        })  # fmt: skip
        self._producer.init_transactions(LIMIT_S)

    def begin(self) -> None:
        self.sent = []
        self._producer.begin_transaction()

    def send(self, *is_large: bool) -> None:
        """One batch."""
        for one in is_large:
            value = os.urandom(LARGE_BYTES) if one else os.urandom(100)
            self._producer.produce(self.topic, value, b"key", 0, on_delivery=self._delivered)
        assert self._producer.flush(LIMIT_S) == 0

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None
        self.sent.append((message.offset(), message.value()))

    def commit(self) -> Records:
        self._producer.commit_transaction(LIMIT_S)
        return self.sent

    def abort(self) -> Records:
        self._producer.abort_transaction(LIMIT_S)
        return self.sent


@dataclass(frozen=True, slots=True)
class Overlapping:
    topic: str
    shown: dict[Isolation, Records]
    middle: int  # an offset in the middle of a committed batch with large messages before and after it

    def start_group(self, front: Front, group: str) -> None:
        """Have a group begin in the middle."""
        consumer = Consumer({"bootstrap.servers": front.cluster.direct, "group.id": group, "logger": SILENT})
        consumer.commit(offsets=[TopicPartition(self.topic, 0, self.middle)], asynchronous=False)
        consumer.close()


def overlapping(front: Front, topic: str) -> Overlapping:
    front.topic(topic, max_message_bytes=str(LIMIT))
    one, other = (Transactional(front, topic, id_) for id_ in ("one", "other"))
    committed, aborted = Records(), Records()
    one.begin()
    one.send(False, True, False)
    other.begin()
    other.send(True, False)
    one.send(True)
    aborted += other.abort()
    other.begin()
    other.send(False, True)
    committed += one.commit()
    one.begin()
    one.send(True, True)
    other.send(True, False, True, False, True)
    middle = other.sent[-3][0]
    aborted += one.abort()
    committed += other.commit()
    shown: dict[Isolation, Records] = {
        "read_committed": sorted(committed), "read_uncommitted": sorted(committed + aborted)
    }  # fmt: skip
    return Overlapping(topic, shown, middle)
