"""A broker, a sidecar with interceptors, and the events that they have written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from harness import json_lines
from harness.tool_host import ToolHost
from harness.versions import NEWEST, ROOT
from integration.front import Front
from integration.interception.reads import Partition
from integration.scenarios.target import LIMIT_S, SILENT
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

OFFSET_FETCH = 9  # the newest version that names topics
PLUGGED = Path(__file__).with_name("plugged")
EXAMPLES = ROOT / "examples" / "interceptors"

MAX_BATCH = 16 << 20  # as in the rules
# Topics are named after what is done with their records and commits.
RULES = """
validation: {max_batch: 16MiB}
interceptors:
  - {type: "hooks:Marks", name: marks, topics: ["marks-*"], class_path: "PLUGGED"}
  - {type: "add_header", name: ours, topics: ["marks-*"], headers: {ours: "ключ"}}
  - {type: "hooks:Stamps", name: stamps, topics: ["stamps-*"], class_path: "PLUGGED"}
  - {type: "mask_fields", name: masks, topics: ["masked-*"], fields: ["$.card"]}
  - {type: "hooks:Chosen", name: chosen, topics: ["chosen-*"], class_path: "PLUGGED", events: "EVENTS"}
  - {type: "hooks:Commits", name: filter, topics: ["filter-*"], class_path: "PLUGGED", events: "EVENTS", does: filter}
  - {type: "hooks:Commits", name: annotate, topics: ["annotate-*"], class_path: "PLUGGED", events: "EVENTS",
     does: annotate}
  - {type: "hooks:Commits", name: generate, topics: ["generate-*"], class_path: "PLUGGED", events: "EVENTS",
     does: generate}
  - {type: "hooks:Commits", name: empty, topics: ["empty-*"], class_path: "PLUGGED", events: "EVENTS", does: empty}
  - {type: "hooks:Commits", name: overflow, topics: ["overflow-*"], class_path: "PLUGGED", events: "EVENTS",
     does: overflow}
  - {type: "no_rewind:NoRewind", name: no-rewind, topics: ["no-rewind-*"], class_path: "EXAMPLES"}
"""


def rules(template: str, events: Path) -> str:
    """A configuration file."""
    return template.replace("PLUGGED", str(PLUGGED)).replace("EXAMPLES", str(EXAMPLES)).replace("EVENTS", str(events))


@dataclass(frozen=True, slots=True)
class Intercepted(Front):
    java: Mapping[str, ToolHost] = field(default_factory=dict, hash=False)
    events_file: Path = Path()

    def events(self, hook: str, **about: object) -> list[dict[str, Any]]:
        """The events of one hook, in order."""
        all_of_them = json_lines.read(self.events_file) if self.events_file.exists() else ()
        return [
            event
            for event in all_of_them
            if event["hook"] == hook and all(event.get(key) == value for key, value in about.items())
        ]

    def committed(self, group: str) -> dict[Partition, tuple[int, str]]:
        """Offset and metadata of each partition, asked of the broker directly."""
        with Wire(self.cluster.direct) as wire:
            groups = [{"group_id": group, "topics": None, "member_epoch": -1}]
            said = wire.ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH, groups=groups, require_stable=True)
        return {
            (topic.name, one.partition_index): (one.committed_offset, one.metadata or "")
            for topic in said.groups[0].topics
            for one in topic.partitions
        }

    def lag(self, group: str) -> dict[Partition, int]:
        """As kafka-consumer-groups.sh prints it, asked of the broker directly."""
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        args = ("--bootstrap-server", self.cluster.direct, "--describe", "--group", group)
        out = self.java[NEWEST].run(tool, *args)
        rows = re.findall(rf"^{re.escape(group)}\s+(\S+)\s+(\d+)\s+\d+\s+\d+\s+(\d+)\s", out, re.MULTILINE)
        return {(topic, int(partition)): int(lag) for topic, partition, lag in rows}

    def ends(self, *partitions: Partition) -> dict[Partition, int]:
        """The log ends, asked of the broker directly."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.direct,
                "group.id": "checks",
                "logger": SILENT,
                "isolation.level": "read_uncommitted",  # else it gets the start of the first open transaction
            }
        )
        try:
            return {one: consumer.get_watermark_offsets(TopicPartition(*one), LIMIT_S)[1] for one in partitions}
        finally:
            consumer.close()
