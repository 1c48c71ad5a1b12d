"""What clients ask for, and their answers: through a guard, and from a broker with classes of the same policy.

The rows are those of docs/reference/topic-guards.md. Each is tried at both: answer and effect are the same, unless a
row says what the classes of a broker are not asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, NewPartitions
from integration.guards.asks import (
    DONE,
    EXISTS,
    GOOD,
    REFUSED,
    Ask,
    aiokafka,
    changed,
    configs,
    created,
    go,
    java,
    kafka_python,
    librdkafka,
    python_configs,
    replaced,
    sent,
    three,
    tool,
    topics,
)

# As tests/jvm/java/GuardingPolicies.java says it.
GUARD: Mapping[str, Any] = {
    "naming": "[a-z]+([.][a-z0-9-]+)+",
    "partitions": {"min": 3, "max": 6},
    "replication_factor": {"min": 1, "max": 1},
    "configs": {
        "retention.ms": {"min": 3_600_000, "max": 604_800_000, "required": True},
        "cleanup.policy": {"values": ["delete", "compact"]},
        "min.insync.replicas": {"values": ["1"]},
    },
    "other_configs": "deny",
    "delete": "deny",
}
POLICIES = {
    "create.topic.policy.class.name": "GuardingPolicies$Creation",
    "alter.config.policy.class.name": "GuardingPolicies$Alteration",
}
DEFAULTS = {"num.partitions": 2, "default.replication.factor": 1, "auto.create.topics.enable": "true"}


@dataclass(frozen=True, slots=True)
class Row:
    """One request of one client."""

    client: str
    request: str
    ask: Ask
    answer: str  # through the guard
    at_classes: str = ""  # from the broker with classes; none: the same
    because: str = ""  # why it is another one
    exists: bool = False  # whether the topic is there before

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """As on the page."""
        other = f"`{self.at_classes or self.answer}`{f': {self.because}' if self.because else ''}"
        return self.client, self.request, f"`{self.answer}`", other


TOPICS, CONFIGS = "kafka-topics.sh", "kafka-configs.sh"
ADMIN, LIBRDKAFKA, PYTHON, AIO, FRANZ, SARAMA = (
    "Java Admin",
    "librdkafka",
    "kafka-python",
    "aiokafka",
    "franz-go",
    "sarama",
)
NO_CLASS = "Kafka has no class for it"
RETENTION = ("--config", "retention.ms=3600000")
SET, DELETE, APPEND, SUBTRACT = (
    AlterConfigOpType.SET, AlterConfigOpType.DELETE, AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT,
)  # fmt: skip
ROWS = [
    Row(TOPICS, "create, all as the guard says", topics("--create", "--partitions", "3", *RETENTION), DONE),
    Row(
        TOPICS,
        "create `Bad-TOPIC`",
        tool("TopicCommand", "--create", "--partitions", "3", "--topic", "Bad-TOPIC", *RETENTION),
        REFUSED,
    ),
    Row(TOPICS, "create with 1 partition", topics("--create", "--partitions", "1", *RETENTION), REFUSED),
    Row(TOPICS, "create with 7 partitions", topics("--create", "--partitions", "7", *RETENTION), REFUSED),
    Row(TOPICS, "create with the broker's 2 partitions", topics("--create", *RETENTION), REFUSED),
    Row(
        TOPICS,
        "create with 3 partitions and the broker's 1 replica",
        topics("--create", "--partitions", "3", *RETENTION),
        DONE,
    ),
    Row(
        TOPICS,
        "create with `--replica-assignment 1,1`",
        topics("--create", "--replica-assignment", "1,1", *RETENTION),
        REFUSED,
    ),
    Row(
        TOPICS,
        "create with `--replica-assignment 1,1,1`",
        topics("--create", "--replica-assignment", "1,1,1", *RETENTION),
        DONE,
    ),
    Row(TOPICS, "create without `retention.ms`", topics("--create", "--partitions", "3"), REFUSED),
    Row(
        TOPICS,
        "create with `retention.ms=1`",
        topics("--create", "--partitions", "3", "--config", "retention.ms=1"),
        REFUSED,
    ),
    Row(
        TOPICS,
        "create with `min.insync.replicas=2`",
        topics("--create", "--partitions", "3", *RETENTION, "--config", "min.insync.replicas=2"),
        REFUSED,
    ),
    Row(
        TOPICS,
        "create with `segment.ms=60000`, which the guard does not name",
        topics("--create", "--partitions", "3", *RETENTION, "--config", "segment.ms=60000"),
        REFUSED,
    ),
    Row(
        TOPICS,
        "create a topic that exists, with 1 partition",
        topics("--create", "--partitions", "1"),
        EXISTS,
        exists=True,
    ),
    Row(TOPICS, "alter to 6 partitions", topics("--alter", "--partitions", "6"), DONE, exists=True),
    Row(TOPICS, "alter to 7 partitions", topics("--alter", "--partitions", "7"), REFUSED, DONE, NO_CLASS, exists=True),
    Row(TOPICS, "delete", topics("--delete"), REFUSED, DONE, NO_CLASS, exists=True),
    Row(CONFIGS, "set `retention.ms=7200000`", configs("--add-config", "retention.ms=7200000"), DONE, exists=True),
    Row(CONFIGS, "set `retention.ms=1`", configs("--add-config", "retention.ms=1"), REFUSED, exists=True),
    Row(CONFIGS, "delete `retention.ms`", configs("--delete-config", "retention.ms"), REFUSED, exists=True),
    Row(CONFIGS, "set `segment.ms=60000`", configs("--add-config", "segment.ms=60000"), REFUSED, exists=True),
    Row(
        CONFIGS,
        "set `cleanup.policy=[compact,delete]`",
        configs("--add-config", "cleanup.policy=[compact,delete]"),
        REFUSED,
        exists=True,
    ),
    Row(CONFIGS, "delete `cleanup.policy`", configs("--delete-config", "cleanup.policy"), DONE, exists=True),
    Row(
        ADMIN,
        "create 3 topics: good, 1 partition, good",
        java(
            "create",
            "false",
            "TOPIC:3:1:retention.ms=3600000",
            "TOPIC.1:1:1:retention.ms=3600000",
            "TOPIC.2:4:1:retention.ms=3600000",
        ),
        f"{DONE}, {REFUSED}, {DONE}",
    ),
    Row(
        ADMIN,
        "create 2 topics with `validateOnly`: good, 1 partition",
        java("create", "true", "TOPIC:3:1:retention.ms=3600000", "TOPIC.1:1:1:retention.ms=3600000"),
        f"{DONE}, {REFUSED}",
    ),
    Row(
        ADMIN,
        "create with the broker's 2 partitions, `validateOnly`",
        java("create", "true", "TOPIC:-1:-1:retention.ms=3600000"),
        REFUSED,
    ),
    Row(
        ADMIN,
        "set `retention.ms=1` with `validateOnly`",
        java("configs", "true", "TOPIC", "SET", "retention.ms", "1"),
        REFUSED,
        exists=True,
    ),
    Row(
        ADMIN,
        "append `compact` to `cleanup.policy`",
        java("configs", "false", "TOPIC", "APPEND", "cleanup.policy", "compact"),
        REFUSED,
        exists=True,
    ),
    Row(
        ADMIN,
        "append `delete` to `cleanup.policy`",
        java("configs", "false", "TOPIC", "APPEND", "cleanup.policy", "delete"),
        DONE,
        exists=True,
    ),
    Row(
        ADMIN,
        "append to `retention.ms`, which is no list",
        java("configs", "false", "TOPIC", "APPEND", "retention.ms", "1"),
        "INVALID_CONFIG",
        exists=True,
    ),
    Row(
        ADMIN,
        "subtract `delete` from `cleanup.policy`",
        java("configs", "false", "TOPIC", "SUBTRACT", "cleanup.policy", "delete"),
        REFUSED,
        exists=True,
    ),
    Row(
        ADMIN,
        "set `retention.ms` of a topic that is not there",
        java("configs", "false", "TOPIC", "SET", "retention.ms", "3600000"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    Row(ADMIN, "create 7 partitions", java("partitions", "TOPIC", "7"), REFUSED, DONE, NO_CLASS, exists=True),
    Row(ADMIN, "delete", java("delete", "TOPIC"), REFUSED, DONE, NO_CLASS, exists=True),
    Row(
        LIBRDKAFKA,
        "create 3 topics: good, 1 partition, without `retention.ms`",
        librdkafka(three),
        f"{DONE}, {REFUSED}, {REFUSED}",
    ),
    Row(LIBRDKAFKA, "create with the broker's 2 partitions", created(-1, retention_ms="3600000"), REFUSED),
    Row(
        LIBRDKAFKA,
        "create with `validate_only` and `retention.ms=1h`",
        created(3, only=True, retention_ms="1h"),
        "INVALID_CONFIG",
    ),
    Row(LIBRDKAFKA, "delete `retention.ms`", changed("retention.ms", DELETE, None), REFUSED, exists=True),
    Row(
        LIBRDKAFKA,
        "append `compact` to `cleanup.policy`",
        changed("cleanup.policy", APPEND, "compact"),
        REFUSED,
        exists=True,
    ),
    Row(
        LIBRDKAFKA,
        "subtract `compact`, which is not there, from `cleanup.policy`",
        changed("cleanup.policy", SUBTRACT, "compact"),
        DONE,
        exists=True,
    ),
    Row(
        LIBRDKAFKA,
        "AlterConfigs: `retention.ms=7200000` in place of all configs",
        replaced(retention_ms="7200000"),
        DONE,
        exists=True,
    ),
    Row(LIBRDKAFKA, "AlterConfigs: `retention.ms=1`", replaced(retention_ms="1"), REFUSED, exists=True),
    Row(
        LIBRDKAFKA,
        "AlterConfigs: `cleanup.policy=compact` alone, which takes `retention.ms` away",
        replaced(cleanup_policy="compact"),
        REFUSED,
        DONE,
        "its class does not get what is taken away (KAFKA-14195)",
        exists=True,
    ),
    Row(
        LIBRDKAFKA,
        "create 7 partitions",
        librdkafka(lambda admin, topic: admin.create_partitions([NewPartitions(topic, 7)])),
        REFUSED,
        DONE,
        NO_CLASS,
        exists=True,
    ),
    Row(LIBRDKAFKA, "produce to a topic that is not there", sent, "_MSG_TIMED_OUT"),
    Row(
        PYTHON,
        "create, all as the guard says",
        kafka_python(lambda admin, topic: admin.create_topics({topic: {"num_partitions": 3, "configs": GOOD}})),
        DONE,
    ),
    Row(
        PYTHON,
        "create with 1 partition",
        kafka_python(lambda admin, topic: admin.create_topics({topic: {"num_partitions": 1, "configs": GOOD}})),
        REFUSED,
    ),
    Row(PYTHON, "set `retention.ms=1`", kafka_python(python_configs), REFUSED, exists=True),
    Row(AIO, "create, all as the guard says", aiokafka(3), DONE),
    Row(AIO, "create with 1 partition", aiokafka(1), REFUSED),
    Row(FRANZ, "create, all as the guard says", go("franz-go", "create", "TOPIC", "3", "retention.ms=3600000"), DONE),
    Row(
        FRANZ,
        "create with the broker's 2 partitions",
        go("franz-go", "create", "TOPIC", "-1", "retention.ms=3600000"),
        REFUSED,
    ),
    Row(FRANZ, "set `retention.ms=1`", go("franz-go", "set", "TOPIC", "retention.ms", "1"), REFUSED, exists=True),
    Row(SARAMA, "create, all as the guard says", go("sarama", "create", "TOPIC", "3", "retention.ms=3600000"), DONE),
    Row(SARAMA, "create with 7 partitions", go("sarama", "create", "TOPIC", "7", "retention.ms=3600000"), REFUSED),
    Row(
        SARAMA,
        "AlterConfigs: `retention.ms=1`",
        go("sarama", "set", "TOPIC", "retention.ms", "1"),
        REFUSED,
        exists=True,
    ),
]
