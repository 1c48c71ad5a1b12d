"""Producers of all codecs and kinds that go on while brokers and sidecars fail, and what was acknowledged to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from confluent_kafka import KafkaError, Message, Producer
from integration.large_messages.mixed_values import MB, Mixed
from integration.large_messages.traffic import ends
from integration.scenarios.target import SILENT

Kind = Literal["idempotent", "transactional", "plain"]
PATIENCE_S = 400.0
PER_TRANSACTION = 25
ABORTED_EVERY = 4  # transactions
# By name, which is that of the values, too.
SENDERS: dict[str, tuple[Kind, str]] = {
    "one": ("idempotent", "none"),
    "two": ("idempotent", "snappy"),
    "three": ("transactional", "lz4"),
    "four": ("transactional", "zstd"),
    "five": ("plain", "gzip"),
}


@dataclass(frozen=True, slots=True)
class Acked:
    """What a producer was notified of one record."""

    value: Mixed
    partition: int
    offset: int  # negative: the broker has it and does not say where
    since: float  # time.time, when the producer had last reported all that it knew
    at: float


@dataclass(slots=True)
class MixedSending:
    """A producer that sends its values in order, to one partition after the other."""

    bootstrap: str
    topic: str
    name: str
    count: int
    partitions: int
    stored: int = 0
    acked: list[Acked] = field(default_factory=list)  # of aborted transactions, too
    kept: list[Mixed] = field(default_factory=list)  # what readers of committed records are to get
    failure: BaseException | None = None
    _notified: float = 0.0
    _errors: list[KafkaError] = field(default_factory=list)
    _thread: threading.Thread | None = None

    @property
    def kind(self) -> Kind:
        return SENDERS[self.name][0]

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        assert not self._thread.is_alive(), f"{self.name} has sent {self.stored} of {self.count}"

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException as failure:  # noqa: BLE001 - it is raised by join
            self.failure = failure

    def _send_all(self) -> None:
        producer = Producer(self._settings())
        if self.kind != "transactional":
            self._send(producer, range(self.count))
            assert producer.flush(PATIENCE_S) == 0
            assert self._errors == []
            self.kept += [Mixed(self.name, number) for number in range(self.count)]
            return
        producer.init_transactions(PATIENCE_S)
        for index, start in enumerate(range(0, self.count, PER_TRANSACTION)):
            numbers = range(start, min(start + PER_TRANSACTION, self.count))
            if index % ABORTED_EVERY == ABORTED_EVERY - 1:
                producer.begin_transaction()
                self._send(producer, numbers)
                producer.flush(PATIENCE_S)
                assert ends(producer, "abort_transaction")
                self._errors.clear()  # what a connection that was lost has purged was to be aborted
                self.stored = numbers.stop
            else:
                self._send_committed(producer, numbers)
                self.kept += [Mixed(self.name, number) for number in numbers]

    def _settings(self) -> dict[str, Any]:
        kind, codec = SENDERS[self.name]
        limit_ms = int(PATIENCE_S * 1000)
        more: dict[str, dict[str, Any]] = {
            "idempotent": {"enable.idempotence": True},
            "transactional": {"transactional.id": self.name, "transaction.timeout.ms": limit_ms},
            # One request at a time: else the broker may store what is sent again after what was sent later.
            "plain": {"enable.idempotence": False, "acks": "all", "max.in.flight.requests.per.connection": 1},
        }
        return {
            "bootstrap.servers": self.bootstrap, "logger": SILENT, "client.id": self.name, "linger.ms": 20,
            "message.max.bytes": 32 * MB, "queue.buffering.max.kbytes": 48 * 1024, "delivery.timeout.ms": limit_ms,
            "compression.codec": codec, "retries": 1_000_000, "reconnect.backoff.max.ms": 500, **more[kind],
        }  # fmt: skip

    def _send(self, producer: Producer, numbers: Sequence[int]) -> None:
        for number in numbers:
            value = Mixed(self.name, number)
            data = value.build()
            while True:
                try:
                    producer.produce(
                        self.topic, data, b"key", number % self.partitions,
                        on_delivery=partial(self._delivered, value),
                    )  # fmt: skip
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            self._notified = time.time()

    def _send_committed(self, producer: Producer, numbers: range) -> None:
        """As Kafka's documentation says: what can be repeated is, what needs an abort is aborted and sent again."""
        while True:
            producer.begin_transaction()
            self._send(producer, numbers)
            if ends(producer, "commit_transaction"):
                assert self._errors == []
                return
            assert ends(producer, "abort_transaction")
            self._errors.clear()
            self.stored = numbers.start

    def _delivered(self, value: Mixed, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
            return
        self.stored += 1
        offset, partition = message.offset(), message.partition()
        assert partition is not None
        self.acked.append(Acked(value, partition, -1 if offset is None else offset, self._notified, time.time()))
