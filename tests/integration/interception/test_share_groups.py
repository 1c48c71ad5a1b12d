"""Members of share groups (KIP-932) get what interceptors leave of the records, and the group goes on to the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

import pytest
import zstandard
from confluent_kafka import Message, ShareConsumer
from harness.versions import NEWEST
from integration.interception.batches import Sender, send
from integration.interception.intercepted import MAX_BATCH, Intercepted
from integration.interception.reads import How, Reader
from integration.scenarios.target import LIMIT_S, SILENT
from integration.validation.batches import batch, record
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.integration

TOOLS = "org.apache.kafka.tools"
ZSTD = 4
Values = list[bytes | None]


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


@pytest.fixture
def earliest(intercepted: Intercepted) -> Callable[[str], str]:
    """Makes a share group begin at the start of the log; returns its name."""

    def configured(group: str) -> str:
        change = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
        args = ("--bootstrap-server", intercepted.cluster.direct, "--entity-type", "groups", "--entity-name", group)
        intercepted.java[NEWEST].run("org.apache.kafka.tools.ConfigCommand", *args, *change)
        return group

    return configured


def mixed(topic: str, intercepted: Intercepted) -> list[bytes]:
    """Batches of which some records stay, some are edited, some dropped; what is left of them."""
    direct = intercepted.cluster.direct
    send(direct, topic, [[b"drop a"], [b"keep 1", b"drop b", b"edit 2", b"drop c"]], "lz4")
    sender = Sender(direct, topic, "gzip", f"{topic}-writer")
    sender.begin()
    sender.batch(b"drop d", b"keep 3")
    sender.commit()
    send(direct, topic, [[b"drop e", b"drop f"], [b"keep 4", b"drop g"], [b"drop h"]], "zstd")
    return [b"keep 1", b"was edit 2", b"keep 3", b"keep 4"]


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_dropped_records_are_acknowledged_as_gaps_and_the_group_goes_on(
    intercepted: Intercepted, earliest: Callable[[str], str], mode: str
) -> None:
    topic, group = intercepted.topic(f"chosen-share-{mode}"), earliest(f"share-{mode}")
    left = mixed(topic, intercepted)
    assert [message.value() for message in read_all(intercepted, group, topic, mode)] == left


def test_javas_share_consumer_goes_on_after_dropped_records(
    intercepted: Intercepted, earliest: Callable[[str], str]
) -> None:
    topic, group = intercepted.topic("chosen-share-java"), earliest("share-java")
    left = mixed(topic, intercepted)
    assert read_with_java(intercepted, group, topic) == [value.decode() for value in left]
    assert lag(intercepted, group, topic) == 0


CARDS = [json.dumps({"card": f"4000 {number}"}).encode() for number in range(3)]
MASKED = b'{"card": "***"}'


def write_cards(intercepted: Intercepted, topic: str) -> None:
    """With a batch between them that inflates to more than the sidecar looks into."""
    direct = intercepted.cluster.direct
    send(direct, topic, [CARDS[:1]], "zstd")
    large = zstandard.compress(record(0, b'{"card": "4000"}' + bytes(MAX_BATCH)))
    with Wire(direct) as wire:
        assert wire.produce(12, {topic: {0: batch(large, 1, attributes=ZSTD)}})[topic, 0].code == 0
    send(direct, topic, [CARDS[1:]], "zstd")


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_what_is_hidden_is_hidden_from_share_groups_too(
    intercepted: Intercepted, earliest: Callable[[str], str], mode: str
) -> None:
    topic, group = intercepted.topic(f"masked-share-{mode}"), earliest(f"masked-{mode}")
    write_cards(intercepted, topic)
    assert [message.value() for message in read_all(intercepted, group, topic, mode)] == [MASKED] * 3


def test_what_is_hidden_is_hidden_from_javas_share_consumer_too(
    intercepted: Intercepted, earliest: Callable[[str], str]
) -> None:
    topic, group = intercepted.topic("masked-share-java"), earliest("masked-java")
    write_cards(intercepted, topic)
    assert read_with_java(intercepted, group, topic) == [MASKED.decode()] * 3
    assert lag(intercepted, group, topic) == 0


@pytest.mark.parametrize("client", ["java", "librdkafka", "aiokafka", "kafka-python"])
def test_a_batch_that_cannot_be_looked_into_is_hidden_and_does_not_stop_a_consumer(
    intercepted: Intercepted, readers: Mapping[str, Reader], client: str
) -> None:
    topic = intercepted.topic(f"masked-{client}")
    write_cards(intercepted, topic)
    read = readers[client](intercepted.sidecar.bootstrap, [topic], f"hidden-{client}", How())
    assert [*read.values(topic)] == [MASKED] * 3
    assert read.positions == {(topic, 0): 4}
    assert intercepted.metric('intercepted_batches_total{api_key="Fetch",result="hidden_too_large"}') >= 1
