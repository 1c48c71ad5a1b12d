"""aiokafka."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from integration.scenarios.target import LIMIT_S, Target, numbered


def _scenario(body: Callable[[Target], Coroutine[Any, Any, None]]) -> Callable[[Target], None]:
    def run(target: Target) -> None:
        asyncio.run(asyncio.wait_for(body(target), LIMIT_S + 10))

    return run


@asynccontextmanager
async def started(client: Any) -> Any:
    """Starts a producer, consumer or admin client and stops it."""
    try:
        await client.start()
        yield client
    finally:
        await client.close() if isinstance(client, AIOKafkaAdminClient) else await client.stop()


def producer(target: Target, **settings: Any) -> Any:
    return started(AIOKafkaProducer(bootstrap_servers=target.bootstrap, **{**target.security.python, **settings}))


def consumer(target: Target, *topics: str, **settings: Any) -> Any:
    quick = {"fetch_max_wait_ms": 50, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return started(
        AIOKafkaConsumer(*topics, bootstrap_servers=target.bootstrap, **{**quick, **target.security.python, **settings})
    )


def admin_client(target: Target) -> Any:
    return started(AIOKafkaAdminClient(bootstrap_servers=target.bootstrap, **target.security.python))


async def send(target: Target, topic: str, values: list[bytes], partitions: int = 1, **settings: Any) -> None:
    async with producer(target, **settings) as sender:
        sent = [await sender.send(topic, value, partition=n % partitions) for n, value in enumerate(values)]
        await asyncio.gather(*sent)


async def read(
    target: Target, topic: str, count: int, isolation: str = "read_uncommitted"
) -> list[ConsumerRecord[Any, Any]]:
    """The first ``count`` records of partition 0, read without a group."""
    async with consumer(target, isolation_level=isolation) as reader:
        reader.assign([TopicPartition(topic, 0)])
        reader.seek(TopicPartition(topic, 0), 0)
        return await poll(count, reader)


async def poll(count: int, *consumers: Any) -> list[ConsumerRecord[Any, Any]]:
    """``count`` records that any of the consumers gets."""
    records: list[ConsumerRecord[Any, Any]] = []
    async with asyncio.timeout(LIMIT_S):
        while len(records) < count:
            for each in consumers:
                for batch in (await each.getmany(timeout_ms=100)).values():
                    records.extend(batch)
    return records


async def eventually(question: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Asks until the answer is yes: what one broker did, the others learn a little later."""
    async with asyncio.timeout(LIMIT_S):
        while not await question():  # noqa: ASYNC110 what is asked is another process
            await asyncio.sleep(0.05)


@_scenario
async def codecs(target: Target) -> None:
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        topic = target.topic(str(codec))
        async with producer(target, compression_type=codec, linger_ms=20) as sender:
            headers = [("h", str(codec).encode())]
            sent = [
                await sender.send(topic, value, b"key", headers=headers, timestamp_ms=1234) for value in numbered(100)
            ]
            await asyncio.gather(*sent)
        records = await read(target, topic, 100)
        assert [record.value for record in records] == numbered(100)
        assert {(r.key, *r.headers, r.timestamp) for r in records} == {(b"key", *headers, 1234)}


@_scenario
async def acks(target: Target) -> None:
    topic = target.topic("acks")
    for setting in ("all", 1, 0):
        async with producer(target, acks=setting) as sender:
            for value in numbered(20):
                await sender.send(topic, value)
            await sender.flush()
    assert len(await read(target, topic, 60)) == 60


@_scenario
async def idempotent(target: Target) -> None:
    topic = target.topic("idempotent")
    await send(target, topic, numbered(1000), enable_idempotence=True, max_batch_size=2000)
    assert [record.value for record in await read(target, topic, 1000)] == numbered(1000)


@_scenario
async def transactional(target: Target) -> None:
    topic, source = target.topic("transactional"), target.topic("source")
    group = target.named("group")
    async with producer(target, transactional_id=target.named("id")) as sender:
        for start in (0, 10, 20):
            await sender.begin_transaction()
            await asyncio.gather(*[await sender.send(topic, value) for value in numbered(10, start)])
            if start == 10:
                await sender.abort_transaction()
                continue
            await sender.send_offsets_to_transaction({TopicPartition(source, 0): start + 1}, group)
            await sender.commit_transaction()
    async with consumer(target, group_id=group) as reader:
        # A transaction's end reaches the group a little later, and aiokafka asks for no stable offsets (KIP-447).
        while await reader.committed(TopicPartition(source, 0)) != 21:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)
    committed = await read(target, topic, 20, "read_committed")
    assert [record.value for record in committed] == numbered(10) + numbered(10, 20)
    assert len(await read(target, topic, 30)) == 30


@_scenario
async def group(target: Target) -> None:
    """A second member takes half of the partitions and gives them back; every record is seen once."""
    topic = target.topic("group", 4)
    await send(target, topic, numbered(200), 4)
    settings = {"group_id": target.named("group"), "session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    async with consumer(target, topic, **settings) as first:
        seen = await poll(200, first)
        await first.commit()
        async with consumer(target, topic, **settings) as second:
            await _until_each_has(2, first, second)
            await send(target, topic, numbered(200, 200), 4)
            seen += await poll(200, first, second)
            await first.commit()
            await second.commit()
        await _until_each_has(4, first)
        committed = [await first.committed(TopicPartition(topic, partition)) for partition in range(4)]
    assert Counter(record.value for record in seen) == Counter(numbered(400))
    assert committed == [100] * 4


async def _until_each_has(partitions: int, *members: Any) -> None:
    async def each_has() -> bool:
        return all(len(member.assignment()) == partitions for member in members)

    await eventually(each_has)


@_scenario
async def admin(target: Target) -> None:
    name = target.named("topic")
    async with admin_client(target) as client:
        cluster = await client.describe_cluster()
        assert {(broker["host"]) for broker in cluster["brokers"]} == {"127.0.0.1"}
        assert len(cluster["brokers"]) == target.nodes
        await client.create_topics([NewTopic(name, 2, min(3, target.nodes))])

        async def has_partitions() -> bool:
            [described] = await client.describe_topics([name])
            return len(described["partitions"]) in (2, 4)

        await eventually(has_partitions)
        await client.create_partitions({name: NewPartitions(4)})
        await send(target, name, numbered(10), acks="all")
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "65536"})
        await client.alter_configs([resource])

        async def is_altered() -> bool:
            [answer] = await client.describe_configs([resource])
            return any(entry[:2] == ("max.message.bytes", "65536") for entry in answer.resources[0][4])

        await eventually(is_altered)
        deleted = await client.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=4)})
        assert deleted == {TopicPartition(name, 0): 4}
        await _groups(target, client, name)
        await client.delete_topics([name])

        async def is_gone() -> bool:
            return name not in await client.list_topics()

        await eventually(is_gone)


async def _groups(target: Target, client: Any, topic: str) -> None:
    group_id = target.named("group")
    async with consumer(target, topic, group_id=group_id) as member:
        await poll(6, member)
        await member.commit()
        assert group_id in {listed[0] for listed in await client.list_consumer_groups()}
        [described] = await client.describe_consumer_groups([group_id])
        assert described.groups[0][1] == group_id
        offsets = await client.list_consumer_group_offsets(group_id)
        assert offsets[TopicPartition(topic, 0)].offset == 10
