"""librdkafka's producer and consumer, as scripts say."""

from __future__ import annotations

import time
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, Producer, ThrottleEvent, TopicPartition
from integration.scenarios.target import SILENT, headers_of
from integration.together.connection import LIMIT_S, Connection, Reading
from integration.together.records import Batch, Headers, Outcome, Read, Record, Script, Seen, Sent, Transaction

ERRORS = {
    "INVALID_RECORD": "INVALID_RECORD",
    "_INVALID_DIFFERENT_RECORD": "OTHERS_INVALID",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
}
DENIED = "TOPIC_AUTHORIZATION_FAILED"


def produce(at: Connection, script: Script) -> list[Sent]:
    """Raises AssertionError if a record for the denied topic is accepted."""
    common: dict[str, Any] = {
        "bootstrap.servers": at.bootstrap, "logger": SILENT, "client.id": at.named(script.name), "linger.ms": 5000,
        "message.max.bytes": 10_000_000, "batch.size": 5_000_000, "compression.codec": script.codec,
        "enable.idempotence": True, "delivery.timeout.ms": LIMIT_S * 1000, **at.security.librdkafka,
    }  # fmt: skip
    if script.is_transactional:
        common |= {"transactional.id": at.named(script.name), "transaction.timeout.ms": LIMIT_S * 1000}
    producer = Producer(common)
    if script.is_transactional:
        producer.init_transactions(LIMIT_S)
    sent = list[Sent]()
    for number, step in enumerate(script.steps):
        if isinstance(step, Batch):
            sent.append(Sent(step, _send(producer, at, step, names_denied=number == 0), script.name, script.library))
            continue
        sent += _transaction(producer, at, step, script)
    return sent


def _transaction(producer: Producer, at: Connection, step: Transaction, script: Script) -> list[Sent]:
    producer.begin_transaction()
    name = f"{script.name}-{step.end}"
    reported = [(batch, _send(producer, at, batch)) for batch in step.batches]
    if step.end == "commit":
        producer.commit_transaction(LIMIT_S)
    else:
        producer.abort_transaction(LIMIT_S)
    return [Sent(batch, outcomes, script.name, script.library, step.end, name) for batch, outcomes in reported]


def _send(producer: Producer, at: Connection, batch: Batch, names_denied: bool = False) -> tuple[Outcome, ...]:
    records = batch.segments or batch.records
    found = dict[int, Outcome]()
    if not batch.segments:
        denied = list[str]()
        for index, record in enumerate(records):
            _produce(producer, at.topic, batch.partition, record, index, found)
        if names_denied and at.denied is not None:
            producer.produce(at.denied, b"x", partition=0, on_delivery=lambda error, _: denied.append(_name(error)))
        assert producer.flush(LIMIT_S) == 0
        assert denied == [DENIED] * (names_denied and at.denied is not None), f"the denied topic: {denied}"
        return tuple(found[index] for index in range(len(records)))
    for record in records:
        _produce(producer, at.topic, batch.partition, record, 0, found)
        assert producer.flush(LIMIT_S) == 0
        if found[0].error:
            break
    return (found[0],)


def _produce(
    producer: Producer, topic: str, partition: int, record: Record, index: int, found: dict[int, Outcome]
) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        name = _name(error)
        offset = message.offset() if error is None else -1
        assert offset is not None
        found[index] = Outcome(offset, ERRORS.get(name, name))

    headers = cast("list[tuple[str, str | bytes | None]]", list(record.headers))
    producer.produce(topic, record.value, record.key, partition, headers=headers, on_delivery=delivered)


def _name(error: KafkaError | None) -> str:
    return "" if error is None else error.name()


def read(at: Connection, how: Reading, half: int = 0) -> Read:
    """To the end of all partitions; a group to ``half`` of its records first, and on with another consumer."""
    if not how.is_group:
        return _read(at, how, None)
    first = _read(at, how, half)
    rest = _read(at, how, None)
    assert rest.committed == first.positions, f"{how.name} goes on at {rest.committed}, not at {first.positions}"
    throttled_ms = first.throttled_ms + rest.throttled_ms
    return Read(first.seen + rest.seen, rest.positions, first.positions, rest.positions, rest.denied, throttled_ms)


def _read(at: Connection, how: Reading, wanted: int | None) -> Read:
    throttled = [0.0]

    def throttle(event: ThrottleEvent) -> None:
        throttled[0] += event.throttle_time * 1000

    consumer = Consumer({
        "bootstrap.servers": at.bootstrap, "logger": SILENT, "client.id": at.named(how.name),
        "group.id": at.named(how.name), "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "enable.partition.eof": True, "isolation.level": how.isolation, "fetch.wait.max.ms": 50,
        "fetch.message.max.bytes": how.fetch_bytes, "check.crcs": True, "throttle_cb": throttle,
        **at.security.librdkafka,
    })  # fmt: skip
    try:
        places = [TopicPartition(at.topic, number) for number in range(len(_partitions(consumer, at.topic)))]
        committed = consumer.committed(places, LIMIT_S) if how.is_group else []
        if how.is_group:
            consumer.subscribe([at.topic])
        else:
            denied = [TopicPartition(at.denied, 0, 0)] if at.denied is not None else []
            consumer.assign([*(TopicPartition(at.topic, one.partition, 0) for one in places), *denied])
        found = _poll(consumer, at, len(places), wanted)
        found.throttled_ms = throttled[0]
        found.committed = {one.partition: max(one.offset, -1) for one in committed}
        if how.is_group:
            offsets = [TopicPartition(at.topic, number, position) for number, position in found.positions.items()]
            for one in consumer.commit(offsets=offsets, asynchronous=False):
                assert one.error is None, one.error
        return found
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> dict[int, Any]:
    found: dict[int, Any] = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    return found


def _poll(consumer: Consumer, at: Connection, partitions: int, wanted: int | None) -> Read:
    found = Read(positions=dict.fromkeys(range(partitions), 0))
    ended = set[int]()
    deadline = time.monotonic() + LIMIT_S
    needs_denied = at.denied is not None and wanted is None and bool(consumer.assignment())
    while (len(found.seen) < wanted) if wanted is not None else (len(ended) < partitions or needs_denied):
        assert time.monotonic() < deadline, f"no end in time: {len(found.seen)} records, ended {ended}, {found.denied}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error, number, offset = message.error(), message.partition(), message.offset()
        assert number is not None
        if message.topic() == at.denied:
            assert error is not None, "a record of the denied topic"
            found.denied.add(error.name())
            needs_denied = False
            continue
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error
        assert offset is not None
        if error is not None:
            ended.add(number)
            found.positions[number] = offset
            continue
        headers: Headers = headers_of(message)
        found.seen.append(Seen.of(number, offset, message.key(), message.value(), headers))
        found.positions[number] = offset + 1
    return found
