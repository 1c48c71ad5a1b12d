"""A broker with a sidecar in front that copies what its policies reject, and the letters as they are in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from integration.front import Front, logged
from integration.scenarios.target import admin_client, eventually

from kafka_sidecar.codec.records import Header
from kafka_sidecar.dead_letters.letter import Reasons, read_headers

# Topics are named after what holds for them.
RULES = """
topics:
  - {{name: "*.dlq"}}
  - {{name: "faulty-*", policy: json, dead_letters: {{topic: "{{topic}}.dlq", records: rejected}}}}
  - {{name: "shadow-*", policy: json, mode: shadow, dead_letters: {{topic: "{{topic}}.dlq", shadow: true}}}}
  - {{name: "*", policy: json, dead_letters: "{{topic}}.dlq"}}
dead_letters:
  create: {{partitions: 3}}
  spool_folder: {folder}/letters
large_messages:
  topics: [{{name: "large-*.dlq"}}]
"""
LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Read:
    """One letter."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[Header]  # the record's own
    reasons: Reasons


def read_letter(message: Message) -> Read:
    """A letter as a client has got it."""
    kind, timestamp = message.timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    headers: Iterable[tuple[str, Any]] = message.headers() or ()  # type: ignore[assignment] # a list
    own, reasons = read_headers([Header(name, value) for name, value in headers])
    return Read(message.key(), message.value(), timestamp, own, reasons)


@dataclass(frozen=True, slots=True)
class Lettered(Front):
    """What stands in front copies what it rejects."""

    def letters(self, topic: str, count: int, partitions: int = 3, limit_s: float = LIMIT_S) -> list[Read]:
        """The letters of a dead letter topic, once there are so many: by partition."""

        def read() -> list[Message]:
            if topic not in self.topics():
                return []
            return [one for partition in range(partitions) for one in logged(self.cluster.direct, topic, partition)]

        found = eventually(read, lambda found: len(found) >= count, f"{count} letters in {topic}", limit_s)
        return [read_letter(message) for message in found]

    def topics(self) -> set[str]:
        """The names of all topics of the cluster."""
        return set(AdminClient({"bootstrap.servers": self.cluster.direct}).list_topics(timeout=10).topics)


@contextmanager
def placed(cluster: Cluster, topics: Sequence[NewTopic]) -> Iterator[None]:
    """These topics, until all brokers run again."""
    admin = admin_client(cluster.direct)
    for done in admin.create_topics(list(topics)).values():
        done.result(LIMIT_S)
    try:
        yield
    finally:
        for node in cluster.nodes.values():
            node.cont()
            if not node.program.is_running:
                node.start()
        for deleted in admin.delete_topics([topic.topic for topic in topics]).values():
            deleted.result(LIMIT_S)
