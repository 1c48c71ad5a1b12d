"""aiokafka's producer and consumer, as scripts say."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from integration.together.connection import LIMIT_S, Connection, Reading
from integration.together.records import Batch, Outcome, Read, Script, Seen, Sent, Transaction

# It does not know INVALID_RECORD (87): to it that is an unknown error.
ERRORS = {10: "MESSAGE_TOO_LARGE", 44: "POLICY_VIOLATION", -1: "INVALID_RECORD"}


def produce(at: Connection, script: Script) -> list[Sent]:
    return asyncio.run(_produce(at, script))


async def _produce(at: Connection, script: Script) -> list[Sent]:
    sent = list[Sent]()
    async with (
        asyncio.timeout(LIMIT_S),
        AIOKafkaProducer(
            bootstrap_servers=at.bootstrap, client_id=at.named(script.name), compression_type=script.codec,
            max_batch_size=5_000_000, max_request_size=10_000_000, **at.security.python,
        ) as producer,
    ):  # fmt: skip
        for step in script.steps:
            assert not isinstance(step, Transaction)
            sent.append(Sent(step, await _send(producer, at.topic, step), script.name, script.library))
    return sent


async def _send(producer: AIOKafkaProducer, topic: str, batch: Batch) -> tuple[Outcome, ...]:
    for records in [[one] for one in batch.segments] or [list(batch.records)]:
        built = producer.create_batch()
        for one in records:
            assert built.append(key=one.key, value=one.value, timestamp=None, headers=list(one.headers)) is not None
        try:
            done = await (await producer.send_batch(built, topic, partition=batch.partition))
        except KafkaError as error:
            return (Outcome(-1, ERRORS.get(error.errno, str(error))),) * len(batch.records)
    return tuple(Outcome(done.offset + index) for index in range(len(batch.records)))


def read(at: Connection, how: Reading, half: int = 0) -> Read:
    """To the end of all partitions; a group to ``half`` of its records first, and on with another consumer."""
    return asyncio.run(_both(at, how, half))


async def _both(at: Connection, how: Reading, half: int) -> Read:
    if not how.is_group:
        return await _read(at, how, None)
    first = await _read(at, how, half)
    rest = await _read(at, how, None)
    assert rest.committed == first.positions, f"{how.name} goes on at {rest.committed}, not at {first.positions}"
    return Read(first.seen + rest.seen, rest.positions, first.positions, rest.positions)


async def _read(at: Connection, how: Reading, wanted: int | None) -> Read:
    found = Read()
    settings: dict[str, Any] = {"group_id": at.named(how.name)} if how.is_group else {}
    async with (
        asyncio.timeout(LIMIT_S),
        AIOKafkaConsumer(
            at.topic, bootstrap_servers=at.bootstrap, client_id=at.named(how.name), auto_offset_reset="earliest",
            enable_auto_commit=False, isolation_level=how.isolation, max_partition_fetch_bytes=how.fetch_bytes,
            fetch_max_wait_ms=50, **settings, **at.security.python,
        ) as consumer,
    ):  # fmt: skip
        places = [TopicPartition(at.topic, number) for number in sorted(consumer.partitions_for_topic(at.topic) or ())]
        while consumer.assignment() != {*places}:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.02)
        if how.is_group:
            committed = {one.partition: await consumer.committed(one) for one in places}
            found.committed = {number: -1 if offset is None else offset for number, offset in committed.items()}
        ends = await consumer.end_offsets(places)
        while True:
            found.positions = {one.partition: await consumer.position(one) for one in places}
            if wanted is not None and len(found.seen) >= wanted:
                break
            if wanted is None and all(found.positions[one.partition] >= ends[one] for one in places):
                break
            for records in (await consumer.getmany(timeout_ms=100, max_records=3)).values():
                found.seen += [Seen.of(r.partition, r.offset, r.key, r.value, tuple(r.headers)) for r in records]
        if how.is_group:
            await consumer.commit({one: found.positions[one.partition] for one in places})
    return found
