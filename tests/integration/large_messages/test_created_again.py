"""Topics that are deleted and created again, with clients whose Metadata does not name topic ids."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic
from integration.front import Front
from integration.interception.reads import How, Reader
from integration.large_messages.written_logs import topic_id
from integration.scenarios.target import eventually

pytestmark = pytest.mark.integration

SLICES = 1300  # more than look_back: the carrier cannot be found without its pointers
MAX_BATCH = 16_384
VALUE = bytes(range(256)) * (SLICES * MAX_BATCH // 256)


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_a_message_whose_slices_are_far_away_is_delivered_in_a_topic_that_was_created_again(
    large: Front, readers: Mapping[str, Reader], library: str
) -> None:
    """The sidecar knows the topic by the id that it had before, for up to five minutes."""
    topic = f"large-again-{library}"
    admin = AdminClient({"bootstrap.servers": large.cluster.direct})
    create(admin, topic)
    before = topic_id(large, topic)
    asyncio.run(send(large.sidecar.bootstrap, topic, b"before"))
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic in admin.list_topics(timeout=10).topics, lambda there: not there, "the topic to go", 30)
    create(admin, topic)
    assert topic_id(large, topic) != before
    asyncio.run(send(large.sidecar.bootstrap, topic, VALUE))
    read = readers[library](large.sidecar.bootstrap, [topic], f"{topic}-group", How())
    assert [one.value for one in read.records] == [VALUE]
    assert read.records[0].offset > 1000


def create(admin: AdminClient, topic: str) -> None:
    new = NewTopic(topic, 1, config={"max.message.bytes": str(MAX_BATCH)})
    admin.create_topics([new])[topic].result(30)


async def send(bootstrap: str, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, max_request_size=64 << 20, request_timeout_ms=60_000
    ) as producer:
        await producer.send_and_wait(topic, value)
