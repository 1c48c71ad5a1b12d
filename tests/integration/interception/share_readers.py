"""Members of share groups (KIP-932): librdkafka's, and Kafka's own console tool."""

from __future__ import annotations

import time

from confluent_kafka import Message, ShareConsumer
from harness.versions import NEWEST
from integration.interception.intercepted import Intercepted
from integration.scenarios.target import LIMIT_S, SILENT
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

TOOLS = "org.apache.kafka.tools"


def lag(intercepted: Intercepted, group: str, topic: str) -> int:
    """How many records the group has not done with; -1: it has not begun."""
    with Wire(intercepted.cluster.direct) as wire:
        said = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": group, "topics": None}])
    partitions = [one for named in said.groups[0].topics if named.topic_name == topic for one in named.partitions]
    return int(partitions[0].lag) if partitions else -1


def read_all(intercepted: Intercepted, group: str, topic: str, mode: str) -> list[Message]:
    """What librdkafka's consumer gets until the group has done with the whole log."""
    found: list[Message] = []
    deadline = time.monotonic() + LIMIT_S
    with ShareConsumer({
        "bootstrap.servers": intercepted.sidecar.bootstrap, "group.id": group, "logger": SILENT,
        "share.acknowledgement.mode": mode,
    }) as consumer:  # fmt: skip
        consumer.subscribe([topic])
        while (left := lag(intercepted, group, topic)) != 0:
            assert time.monotonic() < deadline, f"{group} has a lag of {left} after {len(found)} records"
            for message in consumer.poll(0.5):
                assert message.error() is None
                found.append(message)
                if mode == "explicit":
                    consumer.acknowledge(message)
    return found


def read_with_java(intercepted: Intercepted, group: str, topic: str) -> list[str]:
    """What Kafka's console share consumer prints until it has waited for some seconds."""
    tool = f"{TOOLS}.consumer.ConsoleShareConsumer"
    args = ("--bootstrap-server", intercepted.sidecar.bootstrap, "--topic", topic, "--group", group)
    return intercepted.java[NEWEST].run(tool, *args, "--timeout-ms", 6000).splitlines()


def begin_at_the_start(intercepted: Intercepted, group: str) -> str:
    """Makes a share group begin at the start of the log; returns its name."""
    change = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
    args = ("--bootstrap-server", intercepted.cluster.direct, "--entity-type", "groups", "--entity-name", group)
    intercepted.java[NEWEST].run("org.apache.kafka.tools.ConfigCommand", *args, *change)
    return group
