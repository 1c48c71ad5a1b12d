"""A record that interceptors change: as its producer sent it, as it is stored, as a consumer gets it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from ledger import Finding
from rich.box import SIMPLE
from rich.table import Table

TOPIC = "customers"
CLIENT_ID = "demo-customers"
VALUE = b'{"card": {"number": "4111111111111111"}}'
MASKED = b'{"card": {"number": "***1111"}}'
ADDED = ("written-by", CLIENT_ID.encode())
PATIENCE_S = 15.0

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A record at one of these places."""

    value: bytes | None
    headers: Headers
    timestamp: int | None = None  # ms since 1970, as the producer has set it

    @classmethod
    def of(cls, message: Message) -> Seen:
        return cls(message.value(), cast(Headers, message.headers() or []), message.timestamp()[1])


class Customers:
    """One record: written through the sidecar, read from the broker directly and through the sidecar."""

    def __init__(self, sidecar: str, brokers: str) -> None:
        self.sent = Seen(VALUE, [])
        producer = Producer({"bootstrap.servers": sidecar, "client.id": CLIENT_ID})
        producer.produce(TOPIC, VALUE, "customer-17")
        producer.flush(PATIENCE_S)
        producer.close()
        self.stored = first(brokers, TOPIC)
        self.read = first(sidecar, TOPIC)

    def findings(self) -> Iterator[Finding]:
        added = self.stored is not None and self.stored.headers == [ADDED]
        yield Finding(added, f"a record of {TOPIC!r} is in the log with a header that its producer did not write")
        masked = self.read is not None and self.read.value == MASKED
        kept = self.stored is not None and self.stored.value == VALUE
        yield Finding(masked and kept, "its consumer got the card number masked; in the log it is whole")

    def table(self) -> Table:
        """The record at its three places."""
        table = Table(
            box=SIMPLE,
            title=f"One record of {TOPIC!r}: a header is added on produce, a field masked on consume",
            caption="The interceptors add_header and mask_fields: examples/demo.yaml. No client was changed.",
        )
        for column in ("where", "headers", "value"):
            table.add_column(column)
        for where, seen in (("sent", self.sent), ("in the log", self.stored), ("consumed", self.read)):
            headers = ", ".join(f"{key}={(value or b'').decode()}" for key, value in (seen.headers if seen else []))
            table.add_row(where, headers or "none", (seen.value or b"").decode() if seen else "never seen")
        return table


def first(bootstrap_servers: str, topic: str) -> Seen | None:
    """The first record of a topic; None: it did not arrive in time."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "demo-readers"})
    for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
        consumer.incremental_assign([TopicPartition(topic, partition, 0)])
    try:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                return Seen.of(message)
        return None
    finally:
        consumer.close()
