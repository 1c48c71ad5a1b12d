"""The consumers of four client libraries: each reads topics to their ends, the only member of a group, and commits."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.structs import OffsetAndMetadata as AiokafkaOffset
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.interception.reads import OWN, How, Partition, Read, Reader, Seen
from integration.scenarios.target import LIMIT_S, SILENT, headers_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import OffsetAndMetadata as KafkaPythonOffset
    from kafka import TopicPartition as KafkaPythonPartition

WAIT_MS = 50  # for a Fetch that finds nothing


def readers(java_hosts: Mapping[str, ToolHost]) -> Mapping[str, Reader]:
    """By the library's name."""
    return {"java": java(java_hosts), "librdkafka": librdkafka, "aiokafka": aiokafka, "kafka-python": kafka_python}


def java(hosts: Mapping[str, ToolHost], version: str = NEWEST) -> Reader:
    def run(bootstrap: str, topics: Sequence[str], group: str, how: How) -> Read:
        settings: dict[str, str | int] = {
            "isolation.level": how.isolation,
            "group.protocol": how.protocol,
            "max.partition.fetch.bytes": how.fetch_bytes,
            "max.poll.records": 50,
        }
        if how.transactional_id:
            settings["transactional.id"] = how.transactional_id
        arguments = [f"{key}={value}" for key, value in settings.items()]
        out = hosts[version].run("GroupReader", bootstrap, ",".join(topics), group, *arguments)
        read = Read()
        for what, topic, partition, offset, *rest in (line.split("\t") for line in out.splitlines()):
            if what == "position":
                read.positions[topic, int(partition)] = int(offset)
                continue
            key, value, *headers = rest
            pairs = (header.split("=") for header in headers)
            found = tuple((bytes.fromhex(name).decode(), _bytes(content)) for name, content in pairs)
            read.records.append(Seen(topic, int(partition), int(offset), _bytes(key), _bytes(value), found))
        return read

    return run


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else bytes.fromhex(text)


def _place(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def librdkafka(
    bootstrap: str, topics: Sequence[str], group: str, how: How, logger: logging.Logger = SILENT, debug: str = ""
) -> Read:
    """What it writes to its log is of interest to some."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "logger": logger, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": how.isolation,
        "group.protocol": how.protocol, "max.partition.fetch.bytes": how.fetch_bytes, "fetch.wait.max.ms": WAIT_MS,
        **({"debug": debug} if debug else {}),
    })  # fmt: skip
    found = consumer.list_topics(timeout=LIMIT_S).topics
    places = [(topic, number) for topic in topics for number in found[topic].partitions]
    consumer.subscribe(list(topics))
    read, ended = Read(), set[Partition]()
    try:
        deadline = time.monotonic() + LIMIT_S
        while ended != {*places}:
            assert time.monotonic() < deadline, f"{group}: no end in time, {len(read.records)} records"
            for message in consumer.consume(500, timeout=0.1):
                error = message.error()
                assert error is None or error.code() == KafkaError._PARTITION_EOF, error
                topic, number, offset = _place(message)
                if error is None:
                    key, value = message.key(), message.value()
                    read.records.append(Seen(topic, number, offset, key, value, headers_of(message)))
                else:
                    ended.add((topic, number))
                    read.positions[topic, number] = offset
        asked = [TopicPartition(*place) for place in places]
        # Its position is after the last record that it got, and unset before the first one.
        for one in consumer.position(asked):
            assert one.offset in (read.positions[one.topic, one.partition], -1001), one
        offsets = [TopicPartition(*place, offset, OWN) for place, offset in read.positions.items()]
        if how.transactional_id:
            producer = Producer(
                {"bootstrap.servers": bootstrap, "logger": logger, "transactional.id": how.transactional_id}
            )
            producer.init_transactions(LIMIT_S)
            producer.begin_transaction()
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LIMIT_S)
            producer.commit_transaction(LIMIT_S)
        else:
            assert not [one for one in consumer.commit(asynchronous=False) if one.error]
    finally:
        consumer.close()
    return read


def aiokafka(bootstrap: str, topics: Sequence[str], group: str, how: How) -> Read:
    return asyncio.run(asyncio.wait_for(_aiokafka(bootstrap, topics, group, how), 2 * LIMIT_S))


async def _aiokafka(bootstrap: str, topics: Sequence[str], group: str, how: How) -> Read:
    read = Read()
    async with AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        isolation_level=how.isolation, max_partition_fetch_bytes=how.fetch_bytes, fetch_max_wait_ms=WAIT_MS,
    ) as consumer:  # fmt: skip
        places = [AiokafkaPartition(topic, n) for topic in topics for n in consumer.partitions_for_topic(topic) or ()]
        ends = await consumer.end_offsets(places)
        at = dict.fromkeys(places, 0)
        async with asyncio.timeout(LIMIT_S):
            while consumer.assignment() != {*places} or any(at[place] < ends[place] for place in places):
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    read.records += [_seen(one) for one in batch]
                if consumer.assignment() == {*places}:
                    at = {place: await consumer.position(place) for place in places}
        read.positions = {(place.topic, place.partition): offset for place, offset in at.items()}
        if how.transactional_id:
            offsets = {place: AiokafkaOffset(offset, OWN) for place, offset in at.items()}
            async with (
                AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=how.transactional_id) as producer,
                producer.transaction(),
            ):
                await producer.send_offsets_to_transaction(offsets, group)
        else:
            await consumer.commit()
    return read


def _seen(record: Any) -> Seen:
    return Seen(record.topic, record.partition, record.offset, record.key, record.value, tuple(record.headers))


def kafka_python(bootstrap: str, topics: Sequence[str], group: str, how: How) -> Read:
    read = Read()
    with KafkaConsumer(
        *topics, bootstrap_servers=bootstrap.split(","), group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level=how.isolation, max_partition_fetch_bytes=how.fetch_bytes,
        fetch_max_wait_ms=WAIT_MS,
    ) as consumer:  # fmt: skip
        places = [KafkaPythonPartition(topic, n) for topic in topics for n in consumer.partitions_for_topic(topic)]
        ends = consumer.end_offsets(places)
        at, deadline = dict.fromkeys(places, 0), time.monotonic() + LIMIT_S
        while consumer.assignment() != {*places} or any(at[place] < ends[place] for place in places):
            assert time.monotonic() < deadline, f"{group}: no end in time, {len(read.records)} records"
            # With a short limit it gives up joining its group again and again.
            for batch in consumer.poll(timeout_ms=100 if consumer.assignment() else 1000).values():
                read.records += [_seen(one) for one in batch]
            if consumer.assignment() == {*places}:
                at = {place: consumer.position(place) for place in places}
        read.positions = {(place.topic, place.partition): offset for place, offset in at.items()}
        if how.transactional_id:
            offsets = {place: KafkaPythonOffset(offset, OWN, -1) for place, offset in at.items()}
            with KafkaProducer(
                bootstrap_servers=bootstrap.split(","), transactional_id=how.transactional_id
            ) as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.send_offsets_to_transaction(offsets, group)
                producer.commit_transaction()
        else:
            consumer.commit()
    return read
