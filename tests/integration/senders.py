"""Producers that send at a steady pace until they are stopped, what became of each record, and what is in the log."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from harness.cluster import Cluster
from harness.tool_host import ToolHost
from integration.scenarios.target import LIMIT_S, SILENT, eventually

# The longest time that a record may take; the same for both kinds of client.
DELIVERY_S = 60
STOP_LIMIT_S = DELIVERY_S + 30


@dataclass(slots=True)
class Outcome:
    """What became of the records that were sent."""

    sent: int = 0
    acked: int = 0
    slowest_ms: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)


class Senders(Protocol):
    def stop(self) -> Outcome:
        """Sends no more; what became of the records, once that is known of all."""


class LibrdkafkaSenders:
    """Producers of librdkafka in one thread; values are ``rdkafka-CLIENT-NUMBER``."""

    def __init__(
        self, bootstrap: str, topic: str, clients: int, per_second: int, config: Mapping[str, str | int | bool]
    ) -> None:
        common = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "logger": SILENT,
            "delivery.timeout.ms": DELIVERY_S * 1000,
        }
        self._producers = [Producer({**common, **config}) for _ in range(clients)]
        self._topic, self._per_second = topic, per_second
        self._outcome = Outcome()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        start, number = time.monotonic(), 0
        while not self._stop.is_set():
            for client, producer in enumerate(self._producers):
                self._send_one(producer, b"rdkafka-%d-%d" % (client, number))
                producer.poll(0)
            number += 1
            self._stop.wait(max(0.0, start + number / self._per_second - time.monotonic()))
        for producer in self._producers:
            producer.flush(STOP_LIMIT_S)

    def _send_one(self, producer: Producer, value: bytes) -> None:
        began = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._outcome.slowest_ms = max(self._outcome.slowest_ms, (time.monotonic() - began) * 1000)
            if error is None:
                self._outcome.acked += 1
            else:
                self._outcome.failed[error.name()] += 1

        self._outcome.sent += 1
        producer.produce(self._topic, value, on_delivery=delivered)

    def stop(self) -> Outcome:
        self._stop.set()
        self._thread.join(STOP_LIMIT_S + 10)
        assert not self._thread.is_alive()
        return self._outcome


class JavaSenders:
    """Producers of Kafka's own client; values are ``java-CLIENT-NUMBER``."""

    def __init__(
        self,
        host: ToolHost,
        bootstrap: str,
        topic: str,
        clients: int,
        per_second: int,
        config: Mapping[str, str | int],
        folder: Path,
    ) -> None:
        folder.mkdir()
        self._stop = folder / "stop"
        pairs = [f"{key}={value}" for key, value in {"delivery.timeout.ms": DELIVERY_S * 1000, **config}.items()]
        arguments = (bootstrap, topic, folder, clients, per_second, *pairs)
        self._call = host.start("PacedProducers", *arguments, limit_s=STOP_LIMIT_S + 90)

    def stop(self) -> Outcome:
        self._stop.touch()
        done = self._call.result(STOP_LIMIT_S + 100)
        assert done.code == 0, done.err[-3000:]
        outcome = Outcome()
        for line in done.out.splitlines():
            match line.split():
                case ["sent", count]:
                    outcome.sent = int(count)
                case ["acked", count]:
                    outcome.acked = int(count)
                case ["slowest", milliseconds]:
                    outcome.slowest_ms = float(milliseconds)
                case ["failed", kind, count]:
                    outcome.failed[kind] = int(count)
        return outcome


def written(cluster: Cluster, topic: str, partitions: int) -> Counter[str]:
    """How often each value is in the log, read from the brokers up to the offsets that they have now."""
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": "counts", "logger": SILENT})
    all_partitions = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
    ends = sum(consumer.get_watermark_offsets(partition, LIMIT_S)[1] for partition in all_partitions)
    consumer.assign(all_partitions)
    found: Counter[str] = Counter()

    def read() -> int:
        messages = consumer.consume(20_000, timeout=0.5)
        found.update((message.value() or b"").decode() for message in messages if not message.error())
        return found.total()

    eventually(read, lambda total: total >= ends, f"{topic} is read", 60)
    consumer.close()
    return found
