"""A broker, a sidecar whose topics have large messages, and what groups have committed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front
from integration.large_messages.li_log import NEVER_COMPLETE, SYN, Entry, Format, LiProducer, small
from integration.large_messages.stepped import Place, Stepped
from integration.scenarios.target import LIMIT_S, SILENT, admin_client
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

# The others take long, and share their ways with one of these.
CLIENTS = (
    "java",
    "librdkafka",
    *(pytest.param(name, marks=pytest.mark.matrix) for name in ("aiokafka", "kafka-python")),
)
OFFSET_FETCH = 9  # the newest version that names topics
# Topics are named after how they are treated; no message of the tests fits in the cache.
CONFIG = """
large_messages:
  cache: 1
  object_store: "file://OBJECTS"
  topics:
  - {name: "strict-*", offsets: strict-li}
  - {name: "plain-*", offsets: plain}
  - {name: "headers-*", deliver_headers: true, timestamp_header: true}
  - {name: "object-*", store: object, object_above: 100KiB}
  - {name: "li-*"}
  li_clients: ["li-*"]
"""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Groups(Front):
    objects: Path = Path()  # the folder of the object store
    java: Mapping[str, ToolHost] = field(default_factory=dict, hash=False)
    clients: Mapping[str, Stepped] = field(default_factory=dict, hash=False)

    def new_topic(self, kind: str = "li", partitions: int = 2, **config: str) -> str:
        return self.topic(f"{kind}-{next(_numbers)}", partitions, **config)

    def log_of(self, entries: Sequence[Entry], kind: str = "li", form: Format = "v3", timestamp: int = 0) -> str:
        """A new topic with this log in partition 0."""
        topic = self.new_topic(kind)
        LiProducer(self.cluster.direct, topic).write(entries, 0, form, timestamp)
        return topic

    def syn(self, kind: str = "li", form: Format = "v3", timestamp: int = 0) -> str:
        """A new topic with li's test log."""
        topic = self.new_topic(kind)
        producer = LiProducer(self.cluster.direct, topic)
        producer.write(SYN, 0, form, timestamp)
        producer.write(NEVER_COMPLETE, 1, form, timestamp)
        return topic

    def fill(self, topic: str, count: int) -> None:
        """Small records at the end of partition 0, past the sidecar."""
        producer = Producer({"bootstrap.servers": self.cluster.direct, "logger": SILENT})
        for index in range(count):
            producer.produce(topic, small(index), b"k", 0)
        assert producer.flush(LIMIT_S) == 0

    def delete_before(self, topic: str, offset: int) -> None:
        """Records of partition 0, as retention would."""
        admin = admin_client(self.cluster.direct)
        for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
            future.result(LIMIT_S)

    def place(self, topic: str, group: str = "", partition: int = 0, reset: str = "earliest") -> Place:
        return Place(self.sidecar.bootstrap, topic, group or f"group-{next(_numbers)}", partition, reset)

    def stored_offset(self, place: Place) -> tuple[int, str]:
        """What the broker has stored of a group's commit; -1 without one.

        Without the byte 0 at its end, which librdkafka's metadata has in Python.
        """
        with Wire(self.cluster.direct) as wire:
            topics = [{"name": place.topic, "partition_indexes": (place.partition,)}]
            groups = [{"group_id": place.group, "topics": topics, "member_epoch": -1}]
            said = wire.ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH, groups=groups, require_stable=True)
        ((one,),) = (topic.partitions for topic in said.groups[0].topics)
        return one.committed_offset, (one.metadata or "").removesuffix("\0")

    def lag(self, bootstrap: str, place: Place) -> tuple[int, int]:
        """(current offset, lag) of a group, as kafka-consumer-groups.sh prints them."""
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        out = self.java[NEWEST].run(tool, "--bootstrap-server", bootstrap, "--describe", "--group", place.group)
        row = rf"^{re.escape(place.group)}\s+{re.escape(place.topic)}\s+{place.partition}\s+(\d+)\s+\d+\s+(\d+)\s"
        (found,) = re.findall(row, out, re.MULTILINE)
        return int(found[0]), int(found[1])
