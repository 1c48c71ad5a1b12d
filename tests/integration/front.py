"""A broker with a sidecar in front, and what is seen of the two from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition
from harness import admin_pages, json_lines
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually


@contextmanager
def started(folder: Path, rules: str) -> Iterator[tuple[Cluster, Sidecar]]:
    """A new broker, and a sidecar with this configuration, which must not leak an address."""
    config = folder / "sidecar.yaml"
    config.write_text(rules)
    with (
        Cluster.start(NEWEST) as cluster,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        yield cluster, sidecar
        assert cluster.leaks() == []


@dataclass(frozen=True, slots=True)
class Front:
    cluster: Cluster
    sidecar: Sidecar

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Creates a topic, past the sidecar."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        create_topic(self.cluster.direct, name, partitions, settings)
        return name

    def stored(self, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[bytes | None]:
        """The values in the log, read from the broker directly."""
        return [message.value() for message in self.log(topic, partition, isolation)]

    def log(self, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[Message]:
        """The records in the log, read from the broker directly."""
        return logged(self.cluster.direct, topic, partition, isolation)

    def metric(self, name: str) -> float:
        """Sum of the series whose names, with labels, begin so."""
        return self.metrics(name)[0]

    def metrics(self, *names: str) -> list[float]:
        """Of each name the same, from one rendering of the page: the next would be a second later."""
        lines = admin_pages.get(f"{self.sidecar.admin}/metrics").text.splitlines()
        series = [(line, float(line.rpartition(" ")[2])) for line in lines if not line.startswith("#")]
        return [sum(value for line, value in series if line.startswith(f"kafka_sidecar_{name}")) for name in names]

    def lines(self) -> list[dict[str, Any]]:
        """What the sidecar has written to its log."""
        return json_lines.read(self.sidecar.log)

    def resident(self) -> int:
        """Bytes of memory that the sidecar has now."""
        return self._status("VmRSS:")

    def peak(self) -> int:
        """Bytes of memory that it had at most."""
        return self._status("VmHWM:")

    def _status(self, key: str) -> int:
        lines = Path(f"/proc/{self.sidecar.program.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def logged(bootstrap: str, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[Message]:
    """The records in the log of a partition, in order."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "checks", "logger": SILENT, "isolation.level": isolation,
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
    return found
