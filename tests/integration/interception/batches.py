"""Batches written past the sidecar: each as one batch, with the codec that is wished for, in transactions or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer
from integration.scenarios.target import LIMIT_S, SILENT

HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]
KEY = b"k"


class Sender:
    """A producer that sends batch by batch."""

    def __init__(self, bootstrap: str, topic: str, codec: str = "none", transactional_id: str | None = None) -> None:
        settings: dict[str, Any] = {"transactional.id": transactional_id} if transactional_id else {}
        self._topic = topic
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "logger": SILENT, "compression.codec": codec, "linger.ms": 5000, **settings,
        })  # fmt: skip
        if transactional_id:
            self._producer.init_transactions(LIMIT_S)

    def batch(self, *values: bytes, partition: int = 0) -> None:
        for value in values:
            self._producer.produce(self._topic, value, KEY, partition, headers=[*HEADERS])
        assert self._producer.flush(LIMIT_S) == 0

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction(LIMIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(LIMIT_S)


def send(
    bootstrap: str, topic: str, batches: Sequence[Sequence[bytes]], codec: str = "none", partition: int = 0
) -> None:
    sender = Sender(bootstrap, topic, codec)
    for values in batches:
        sender.batch(*values, partition=partition)
