"""Members of share groups (KIP-932) get large messages whole, and the group is done with all slices."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from confluent_kafka import ShareConsumer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front
from integration.large_messages.written_logs import topic_id, write
from integration.scenarios.target import LIMIT_S, SILENT
from integration.validation.wire import Wire
from support.large_logs import Log, message_id, sliced

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.integration

VALUE = bytes(range(256)) * 100


def lag(large: Front, group: str) -> int:
    """How many offsets the group has not done with; -1: it has not begun."""
    with Wire(large.cluster.direct) as wire:
        said = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": group, "topics": None}])
    lags = [int(one.lag) for topic in said.groups[0].topics for one in topic.partitions]
    return lags[0] if lags else -1


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_share_group_gets_each_message_once_and_its_slices_are_gaps(
    large: Front, java: Mapping[str, ToolHost], mode: str
) -> None:
    topic = large.topic(f"large-shared-{mode}")
    id_, log = topic_id(large, topic), Log()
    log.add(b"first")
    log.add_large(VALUE, 12, 1, topic_id=id_)
    log.add(b"second", b"third")
    log.add_large(VALUE[::-1], 12, 2, topic_id=id_)
    for data in sliced(VALUE, 6, message_id(3)):
        log.append(data)
    write(large, topic, log)
    group = f"{topic}-group"
    change = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
    where = ("--bootstrap-server", large.cluster.direct, "--entity-type", "groups", "--entity-name", group)
    java[NEWEST].run("org.apache.kafka.tools.ConfigCommand", *where, *change)
    found = list[bytes | None]()
    deadline = time.monotonic() + LIMIT_S
    with ShareConsumer({
        "bootstrap.servers": large.sidecar.bootstrap, "group.id": group, "logger": SILENT,
        "share.acknowledgement.mode": mode,
    }) as consumer:  # fmt: skip
        consumer.subscribe([topic])
        while (left := lag(large, group)) != 0:
            assert time.monotonic() < deadline, f"{group} has a lag of {left} after {len(found)} records"
            for message in consumer.poll(0.5):
                assert message.error() is None
                found.append(message.value())
                if mode == "explicit":
                    consumer.acknowledge(message)
    assert found == [b"first", VALUE, b"second", b"third", VALUE[::-1]]
