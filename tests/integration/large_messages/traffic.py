"""A producer and a reader of values of 1 KB to 20 MB that go on while brokers and sidecars fail."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from zlib import crc32

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from integration.scenarios.target import SILENT, eventually

Kind = Literal["idempotent", "transactional"]
MB = 1 << 20
PER_TRANSACTION = 50
PATIENCE_S = 300.0
# Topics are named so. The frame limit leaves room for a client's largest request.
RULES = """
large_messages: {topics: [{name: "out-*", max_message: 24MiB}]}
connections: {max_frame: 32MiB}
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One message: its number, and as many bytes as that number says."""

    number: int

    @property
    def size(self) -> int:
        if self.number % 500 == 250:
            return 20 * MB
        return 3 * MB + self.number if self.number % 100 == 50 else 1024 + self.number % 7000

    def build(self) -> bytes:
        start = b"%d %d|" % (self.number, self.number % 251)
        return start + _noise()[self.number : self.number + self.size - len(start)]

    @staticmethod
    def of(message: Message) -> Value:
        """The one that a message is. Raises AssertionError where a byte is another."""
        value = message.value() or b""
        found = Value(int(value.partition(b" ")[0]))
        assert crc32(value) == crc32(found.build()), f"{found} is damaged: {len(value)} bytes"
        return found


@cache
def _noise() -> bytes:
    """What no codec makes smaller."""
    return random.Random(13).randbytes(21 * MB)


@dataclass(slots=True)
class Reading:
    """A consumer of a group that reads through the sidecar while there are outages, and commits what it has read."""

    bootstrap: str
    topic: str
    count: int
    found: list[Value] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"{len(self.found)} of {self.count} are read"
        assert self.failures == []

    def _run(self) -> None:
        consumer = Consumer({
            "bootstrap.servers": self.bootstrap, "group.id": self.topic, "logger": SILENT, "enable.auto.commit": False,
            "auto.offset.reset": "error", "isolation.level": "read_committed", "receive.message.max.bytes": 100 * MB,
            "fetch.message.max.bytes": 32 * MB,
        })  # fmt: skip
        try:
            # Not from a committed offset: nothing is read again for a commit that was lost in an outage.
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            last: Message | None = None
            deadline = time.monotonic() + PATIENCE_S
            while len(self.found) < self.count and time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    assert error.retriable(), error
                    continue
                self.found.append(Value.of(message))
                last = message
            assert last is not None
            eventually(lambda: _commits(consumer, last), bool, "the position is committed", PATIENCE_S)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is noticed
            self.failures.append(error)
        finally:
            consumer.close()


def _commits(consumer: Consumer, message: Message) -> bool:
    try:
        consumer.commit(message=message, asynchronous=False)
    except KafkaException:
        return False
    return True


def ends(producer: Producer, how: str) -> bool:
    """Whether a transaction is committed or aborted, by the method of this name; False: it can only be aborted."""
    while True:
        try:
            getattr(producer, how)(PATIENCE_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.retriable():
                continue
            if error.txn_requires_abort():
                return False
            raise
        return True


@dataclass(slots=True)
class Sending:
    """A producer that sends all values in order, alone or in transactions."""

    bootstrap: str
    topic: str
    kind: Kind
    numbers: Sequence[int]  # of the values
    stored: int = 0
    failures: list[KafkaError] = field(default_factory=list)

    def run(self) -> None:
        limit_ms, more = int(PATIENCE_S * 1000), dict[str, Any]()
        if self.kind == "transactional":
            more = {"transactional.id": self.topic, "transaction.timeout.ms": limit_ms}
        producer = Producer({
            "bootstrap.servers": self.bootstrap, "logger": SILENT, "enable.idempotence": True, "linger.ms": 20,
            "message.max.bytes": 32 * MB, "queue.buffering.max.kbytes": 128 * 1024,
            "delivery.timeout.ms": limit_ms, "compression.codec": "lz4", **more,
        })  # fmt: skip
        if self.kind == "idempotent":
            self._send(producer, self.numbers)
            assert producer.flush(PATIENCE_S) == 0
        else:
            producer.init_transactions(PATIENCE_S)
            for start in range(0, len(self.numbers), PER_TRANSACTION):
                self._send_committed(producer, self.numbers[start : start + PER_TRANSACTION])
        assert self.failures == []
        assert self.stored == len(self.numbers)

    def _send(self, producer: Producer, numbers: Sequence[int]) -> None:
        for number in numbers:
            value = Value(number).build()
            while True:
                try:
                    producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
                    break
                except BufferError:
                    producer.poll(0.5)
            producer.poll(0)

    def _send_committed(self, producer: Producer, numbers: Sequence[int]) -> None:
        """As Kafka's documentation says: what can be repeated is, what needs an abort is aborted and sent again."""
        while True:
            before = self.stored, len(self.failures)
            producer.begin_transaction()
            self._send(producer, numbers)
            if ends(producer, "commit_transaction"):
                return
            assert ends(producer, "abort_transaction")
            self.stored, self.failures[before[1] :] = before[0], []

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.stored += 1
        else:
            self.failures.append(error)


def after_position(direct: str, topic: str) -> list[bytes | None]:
    """What the broker has from just before the group's committed offset on: its last record, if the lag is exact."""
    consumer = Consumer({
        "bootstrap.servers": direct, "group.id": topic, "logger": SILENT, "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    try:
        committed = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset
        consumer.assign([TopicPartition(topic, 0, committed - 1)])
        return [message.value() for message in consumer.consume(10, 10.0) if message.error() is None]
    finally:
        consumer.close()
