"""A broker with a sidecar in front that lets only some records pass, and what is seen of the two from outside."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually

# Topics are named after what holds for them.
RULES = """
policies:
  few-records: {type: limits, max_records: 1000}
topics:
  - {name: "header-*", policy: "require_header:h"}
  - {name: "count-*", policy: few-records}
validation:
  max_batch: 16MiB
"""
MAX_BATCH = 16 << 20


def required(topic: str, header: str = "h") -> str:
    """What a client is told of a record without the header."""
    return f"Topic {topic} requires records to contain a header with key: {header}"


@dataclass(frozen=True, slots=True)
class Guarded:
    cluster: Cluster
    sidecar: Sidecar

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Creates a topic, past the sidecar."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        create_topic(self.cluster.direct, name, partitions, settings)
        return name

    def stored(self, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[bytes | None]:
        """The values in the log, read from the broker directly."""
        return stored(self.cluster.direct, topic, partition, isolation)

    def metric(self, name: str) -> float:
        """Sum of the series whose names, with labels, begin so."""
        with urllib.request.urlopen(f"{self.sidecar.admin}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"kafka_sidecar_{name}"))

    def resident(self) -> int:
        """Bytes of memory that the sidecar has now."""
        return self._status("VmRSS:")

    def peak(self) -> int:
        """Bytes of memory that it had at most."""
        return self._status("VmHWM:")

    def _status(self, key: str) -> int:
        lines = Path(f"/proc/{self.sidecar.program.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def stored(bootstrap: str, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[bytes | None]:
    """The values in the log of a partition, in order."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "judge", "logger": SILENT, "isolation.level": isolation,
        "enable.partition.eof": True, "fetch.wait.max.ms": 20, "enable.auto.commit": False, "check.crcs": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Message] = []

    def is_read() -> bool:
        messages = consumer.consume(5000, timeout=0.05)
        found.extend(message for message in messages if not message.error())
        return any(message.error() for message in messages)  # the end of the partition

    try:
        eventually(is_read, bool, f"the end of {topic}", LIMIT_S)
    finally:
        consumer.close()
    return [message.value() for message in found]
