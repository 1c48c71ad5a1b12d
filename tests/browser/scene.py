"""A real broker, a sidecar with a bit of everything, and clients that keep it busy: what the page is shown with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from harness.sidecar import Sidecar

VERSION = "4.4.0"
TOPICS = ("orders", "payments", "customers", "clicks", "invoices", "secrets", "returns")
CONFIG: dict[str, Any] = {
    "policies": {"small": {"type": "limits", "max_value_bytes": 2000}},
    "topics": [
        {"name": "*.dlq"},
        {"name": "orders", "policy": "json, require_header:trace-id, small", "dead_letters": "{topic}.dlq"},
        {"name": "payments", "policy": "json", "mode": "shadow"},
        {"name": "returns", "policy": "json", "mode": "shadow", "consume": "hide"},
        {"name": "invoices", "policy": "json", "percent": 25},
    ],
    "interceptors": [
        {"type": "add_header", "topics": ["customers"], "headers": {"written-by": {"from": "client_id"}}},
        {"type": "mask_fields", "topics": ["customers"], "fields": ["$.card"], "with": {"keep_last": 4}},
    ],
    "authorization": {
        "default": "allow",
        "rules": [{"principals": ["*"], "permission": "deny", "operations": ["write"], "topics": ["secrets"]}],
    },
    "audit": {
        "topic": "_audit",
        "emitter_id": "sidecar-1",
        "auditor_reporting_interval_ms": 2000,
        "auditor_reporting_delay_ms": 500,
    },
    "large_messages": {"topics": [{"name": "invoices"}]},
    "dead_letters": {"create": {"partitions": 1, "replication_factor": 1}},
    "rate_limits": [
        {"name": "clickstream", "topics": ["clicks"], "produce_bytes": "120KiB", "consume_bytes": "10MiB"},
        {"name": "tools", "client_ids": ["*-admin"], "per": ["client_id"], "requests": 50},
    ],
    "producers": [
        {"topics": ["clicks"], "compression": ["zstd", "lz4"], "mode": "shadow"},
        {"topics": ["orders"], "acks": "all"},
    ],
    "topic_guards": [{"partitions": {"min": 3, "max": 12}, "naming": "[a-z.]+"}],
}


def send(
    bootstrap: str, client_id: str, topic: str, values: Sequence[bytes], headers: Sequence[tuple[str, bytes]] = ()
) -> list[str]:
    """Send records, and return the errors that their producer got."""
    errors: list[str] = []

    def reported(error: object, _: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0})
    for value in values:
        producer.produce(topic, value, headers=list(headers), on_delivery=reported)
    producer.flush(10)
    return errors


class Traffic:
    """Clients that go on until they are stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._steadily, args=(work,), daemon=True)
            for work in (
                self._produce,
                self._click,
                self._consume,
                self._reject,
                self._shadow,
                self._deny,
                self._create,
            )
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(15)

    def _steadily(self, work: Callable[[], None]) -> None:
        while not self._ended.wait(0.05):
            try:
                work()
            except KafkaException:
                time.sleep(0.2)  # while the sidecar is started again

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "client.id": "checkout-7", "log_level": 0})
        while not self._ended.wait(0.02):
            for topic in ("orders", "customers"):
                for number in range(12):
                    value = f'{{"number": {number}, "card": "4929123456781234", "note": "{"." * 200}"}}'
                    producer.produce(topic, value, headers=[("trace-id", b"1")])
            producer.poll(0)
        producer.flush(5)

    def _click(self) -> None:
        """Over the rate limit, and not compressed as is required."""
        settings = {"bootstrap.servers": self._bootstrap, "client.id": "tracker-4", "log_level": 0}
        producer = Producer({**settings, "queue.buffering.max.messages": 2000})
        while not self._ended.wait(0.02):
            with suppress(BufferError):
                for number in range(12):
                    producer.produce("clicks", f'{{"number": {number}, "note": "{"." * 250}"}}')
            producer.poll(0)
        producer.purge()
        producer.flush(5)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "client.id": "shipping-2", "group.id": "shipping"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "log_level": 0})
        consumer.subscribe(["orders", "clicks", "customers"])
        while not self._ended.is_set():
            consumer.consume(500, timeout=0.2)
        consumer.close()

    def _reject(self) -> None:
        send(self._bootstrap, "importer-1", "orders", [b"no json", b"{}"], [("trace-id", b"1")])
        send(self._bootstrap, "web-3", "orders", [b'{"number": 1}'])
        self._ended.wait(0.6)

    def _shadow(self) -> None:
        send(self._bootstrap, "billing", "payments", [b"<payment/>"] * 3)
        self._ended.wait(0.9)

    def _deny(self) -> None:
        send(self._bootstrap, "intern", "secrets", [b"{}"])
        self._ended.wait(2)

    def _create(self) -> None:
        """A topic that a guard refuses."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "client.id": "ci-admin", "log_level": 0})
        for done in admin.create_topics([NewTopic("Temp", 1, 1)]).values():
            with suppress(KafkaException, TimeoutError):
                done.result(5)
        self._ended.wait(1.5)


def spools(folder: Path) -> dict[str, object]:
    """What the configuration keeps on disk while brokers are away."""
    return {
        "audit": {**CONFIG["audit"], "spool_file": str(folder / "audit.spool")},
        "dead_letters": {**CONFIG["dead_letters"], "spool_folder": str(folder / "letters")},
    }


@contextmanager
def scene(folder: Path, extra: dict[str, object] | None = None) -> Iterator[tuple[Cluster, Sidecar]]:
    """A cluster with the topics, and a sidecar in front of it."""
    with Cluster.start(VERSION, 1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.direct, "log_level": 0})
        for done in admin.create_topics([NewTopic(name, 3, 1) for name in (*TOPICS, "_audit")]).values():
            done.result(20)
        config = folder / "sidecar.yaml"
        config.write_text(yaml.safe_dump({**CONFIG, **spools(folder), **(extra or {})}))
        with Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar:
            yield cluster, sidecar
