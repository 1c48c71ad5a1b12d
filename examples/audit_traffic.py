"""The demo's producers and consumers, and what is known of their records without any audit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    KafkaError,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from integration.scenarios.target import SILENT
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

LIMIT_S = 30.0
WAIT_MS = 100
GROUP, SET = 32, 0  # type of resource, operation (KIP-848, KIP-339)
Offsets = set[tuple[str, int, int]]  # topic, partition, offset


@dataclass(slots=True)
class Sent:
    """The outcome of a producer's records."""

    acked: Offsets = field(default_factory=set)
    failed: int = 0

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked.add(place(message))
        else:
            self.failed += 1


def place(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def send(bootstrap: str, client: str, topic: str, count: int, sent: Sent, age_s: float = 0) -> None:
    """Send so many records; returns when the outcome of each is known."""
    producer = producer_of(bootstrap, client)
    produce(producer, topic, count, sent, age_s)
    assert producer.flush(LIMIT_S) == 0


def producer_of(bootstrap: str, client: str, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "client.id": client, "linger.ms": 5, **settings}, logger=SILENT)


def produce(producer: Producer, topic: str, count: int, sent: Sent, age_s: float = 0) -> None:
    for number in range(count):
        at = round((time.time() - age_s) * 1000)
        producer.produce(topic, f"{topic} {at} {number}", timestamp=at, on_delivery=sent.on_delivery)


@contextmanager
def reader(bootstrap: str, group: str, topic: str, start: Callable[[int], int] | None = None) -> Iterator[Consumer]:
    """A member of a group that has its partitions; ``start`` moves the offset of each, after the one committed."""
    config = {
        "bootstrap.servers": bootstrap, "group.id": group, "client.id": f"{group}-app", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "fetch.wait.max.ms": WAIT_MS,
    }  # fmt: skip
    consumer = Consumer(config, logger=SILENT)

    def assign(ours: Consumer, partitions: list[TopicPartition]) -> None:
        if start is not None:
            partitions = [TopicPartition(one.topic, one.partition, start(one.partition)) for one in partitions]
        ours.assign(partitions)

    consumer.subscribe([topic], on_assign=assign)
    try:
        yield consumer
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
        # A fetch that still waits at the broker would be sent what comes next, and be counted.
        time.sleep(4 * WAIT_MS / 1000)


def read(bootstrap: str, group: str, topic: str, last: int, start: Callable[[int], int] | None = None) -> int:
    """Read partition 0 up to an offset; the number of records."""
    count, end = 0, time.monotonic() + LIMIT_S
    with reader(bootstrap, group, topic, start) as consumer:
        while time.monotonic() < end:
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            count += 1
            if place(message)[2] >= last:
                return count
    raise TimeoutError(f"{group} has not read {topic} up to offset {last}")


def begin_at_start(bootstrap: str, group: str) -> None:
    """Let a share group begin with what is there."""
    setting = {"name": "share.auto.offset.reset", "config_operation": SET, "value": "earliest"}
    group_configs = {"resource_type": GROUP, "resource_name": group, "configs": [setting]}
    with Wire(bootstrap) as wire:
        response = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[group_configs])
    assert [one.error_code for one in response.responses] == [0]


def read_shared(bootstrap: str, group: str, topic: str, count: int, releases: int) -> int:
    """Read so many records as a member of a share group, the first ones twice; the number of different ones."""
    config = {
        "bootstrap.servers": bootstrap, "group.id": group, "client.id": f"{group}-app",
        "share.acknowledgement.mode": "explicit", "logger": SILENT,
    }  # fmt: skip
    seen: list[int] = []
    end = time.monotonic() + LIMIT_S
    with ShareConsumer(config) as consumer:
        consumer.subscribe([topic])
        while len(seen) < count + releases:
            if time.monotonic() > end:
                raise TimeoutError(f"{group} has got {len(seen)} records of {topic}")
            for message in consumer.poll(0.5):
                offset = place(message)[2]
                is_released = offset < releases and offset not in seen
                consumer.acknowledge(message, AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT)
                seen.append(offset)
            consumer.commit_sync(LIMIT_S)
    return len(set(seen))


def stored(bootstrap: str, topic: str) -> dict[int, bytes]:
    """Every record of partition 0 as the broker has it: offset to value."""
    config = {"bootstrap.servers": bootstrap, "group.id": "truth", "enable.partition.eof": True}
    consumer = Consumer(config, logger=SILENT)
    found: dict[int, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(LIMIT_S)) is not None and message.error() is None:
            found[place(message)[2]] = message.value() or b""
    finally:
        consumer.close()
    return found
