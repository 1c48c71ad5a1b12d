"""A document that is larger than its topic allows: as its producer sent it, as it is stored, as a consumer gets it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from customers import PATIENCE_S, Headers
from ledger import Finding
from rich.box import SIMPLE
from rich.table import Table

TOPIC, KEY = "documents", b"contract.pdf"
SIZE, LIMIT = 5_000_000, 1 << 20  # bytes; the limit is that of demo.yaml
SMALL = b"a small document"


class Documents:
    """A large and a small record: written through the sidecar, read from the broker directly and through it."""

    def __init__(self, sidecar: str, brokers: str) -> None:
        self.value = os.urandom(SIZE)
        self.offsets: list[int] = []
        self.errors: list[KafkaError] = []
        producer = Producer({
            "bootstrap.servers": sidecar, "client.id": "demo-documents", "enable.idempotence": True,
            "message.max.bytes": 2 * SIZE,
        })  # fmt: skip
        for key, value in ((KEY, self.value), (b"note.txt", SMALL)):
            producer.produce(TOPIC, value, key, partition=0, on_delivery=self._delivered)
            producer.flush(PATIENCE_S)
        producer.close()
        self.stored = _read(brokers)
        self.read = _read(sidecar)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.offsets.append(message.offset() or 0)

    def findings(self) -> Iterator[Finding]:
        largest = max((len(message.value() or b"") for message in self.stored), default=0)
        slices = [message for message in self.stored if "_lm" in _names(message) and "_lmr" not in _names(message)]
        yield Finding(
            not self.errors and 0 < largest < LIMIT and len(slices) * LIMIT >= SIZE - LIMIT,
            f"a document of {SIZE:,} bytes is stored in {len(slices)} slices and a carrier, each below the {LIMIT:,} "
            f"bytes of its topic",
        )
        shown = [(message.offset(), message.value()) for message in self.read]
        expected = list(zip(self.offsets, [self.value, SMALL], strict=False))
        has_headers = any(_names(message) for message in self.read)
        yield Finding(
            shown == expected and not has_headers, "its consumer got it whole, at the offset that its producer got"
        )

    def table(self) -> Table:
        """The records in the log, and what the consumer got of them."""
        table = Table(
            box=SIMPLE,
            title=f"A document of {SIZE:,} bytes in {TOPIC!r}, where a batch may have {LIMIT:,}",
            caption="large_messages: examples/demo.yaml. The producer's and the consumer's code are as for any record.",
        )
        for column in ("offset", "key", "value in the log", "headers", "value that the consumer got"):
            table.add_column(column)
        got = {message.offset(): message.value() or b"" for message in self.read}
        for message in self.stored:
            value, seen = message.value() or b"", got.get(message.offset())
            key, names = (message.key() or b"-").decode(), ", ".join(_names(message)) or "none"
            whole = "nothing" if seen is None else f"{_size(seen)}, sha256 {sha256(seen).hexdigest()[:8]}"
            table.add_row(str(message.offset()), key, _size(value), names, whole)
        return table


def _size(value: bytes) -> str:
    return "1 byte" if len(value) == 1 else f"{len(value):,} bytes"


def _names(message: Message) -> list[str]:
    return [name for name, _ in cast(Headers, message.headers() or [])]


def _read(bootstrap_servers: str) -> list[Message]:
    """All records of the partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "demo-documents", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Message] = []
    try:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                found.append(message)
            elif message is not None:  # the end of the partition
                return found
        return found
    finally:
        consumer.close()
