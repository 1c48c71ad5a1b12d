"""What a scenario talks to, and short ways to say the usual."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from harness.tool_host import ToolHost
from integration.scenarios.security import PLAINTEXT, Security, properties_file

LIMIT_S = 60.0
# librdkafka speaks of every lost connection on stderr unless it is given a logger.
SILENT = logging.getLogger("librdkafka")
SILENT.propagate = False
SILENT.addHandler(logging.NullHandler())

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The address that a client is given, names that no other scenario uses, the JVMs with Java's clients, and how the
    client connects."""

    bootstrap: str
    prefix: str
    nodes: int
    java: Mapping[str, ToolHost]
    security: Security = PLAINTEXT

    def named(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"

    @contextmanager
    def client_properties(self) -> Iterator[Path]:
        """A file with how clients connect, for Java."""
        with tempfile.TemporaryDirectory() as folder:
            yield properties_file(Path(folder), self.security.java)

    def topic(self, suffix: str, partitions: int = 1) -> str:
        """Creates a topic; returns its name once the leaders of its partitions serve it."""
        name = self.named(suffix)
        create_topic(self.bootstrap, name, partitions, security=self.security)
        return name


def admin_client(bootstrap: str, security: Security = PLAINTEXT) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **security.librdkafka}, logger=SILENT)


def latest(topic: str, partitions: int) -> dict[TopicPartition, OffsetSpec]:
    """What `AdminClient.list_offsets` is asked for the ends of a topic's partitions."""
    end: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka leaves it without types
    return {TopicPartition(topic, partition): end for partition in range(partitions)}


def headers_of(message: Message) -> Headers:
    return tuple(cast("list[tuple[str, bytes | None]]", message.headers() or []))


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    security: Security = PLAINTEXT,
) -> None:
    """Creates a topic and waits until its leaders know that they are, a little after the answer to CreateTopics."""
    admin = admin_client(bootstrap, security)
    try:
        admin.create_topics([NewTopic(name, partitions, config=dict(config or {}))])[name].result(LIMIT_S)
    except KafkaException as error:  # the answer was late, and librdkafka has asked again
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    questions = latest(name, partitions)

    def serves_all() -> bool:
        try:
            return all(answer.result(LIMIT_S) for answer in admin.list_offsets(questions).values())
        except KafkaException:
            return False

    eventually(serves_all, bool, f"{name} has leaders")


def eventually(question: Callable[[], T], is_granted: Callable[[T], bool], wish: str, limit_s: float = LIMIT_S) -> T:
    """Asks until the answer is as wished: what one broker did, the others learn a little later."""
    deadline = time.monotonic() + limit_s
    while not is_granted(answer := question()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{wish}: not in {limit_s:g} s; the last answer was {answer!r}")
        time.sleep(0.05)
    return answer


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Values that differ, large enough that every codec has something to do."""
    return [b"%d %s" % (number, b"x" * 100) for number in range(start, start + count)]
