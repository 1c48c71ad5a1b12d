"""Producers of five client libraries with the same settings: what each shows of a batch of three records."""

from __future__ import annotations

import asyncio
import subprocess
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.producer_habits.asked import Sends
from integration.scenarios.target import SILENT
from integration.validation import other_clients
from integration.validation.waves import STORED, Outcome, Result, Sent, printed, typed

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaProducer
    from kafka.errors import KafkaError as KafkaPythonError

LINGER_MS = 300  # three records must be one batch on a busy machine too
LIMIT_S = 60
Send = Callable[[str, str, Sends], Result]  # bootstrap, topic


def senders(java_hosts: Mapping[str, ToolHost]) -> Mapping[str, Send]:
    """By the library's name."""
    return {
        "java": java(java_hosts), "librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka,
        "franz-go": franz_go,
    }  # fmt: skip


def _wave(sends: Sends) -> list[Sent]:
    return [Sent(value) for value in sends.values]


def _alike(outcome: Outcome, sends: Sends) -> Result:
    """What is shown of all records of the batch."""
    (first, *others) = outcome.of(_wave(sends))
    assert {one.error for one in others} == {first.error}
    return first


def java(hosts: Mapping[str, ToolHost]) -> Send:
    def send(bootstrap: str, topic: str, sends: Sends) -> Result:
        settings: dict[str, object] = {
            "acks": sends.acks, "compression.type": sends.codec, "enable.idempotence": str(sends.idempotent).lower(),
            "client.id": sends.client_id, "linger.ms": LINGER_MS,
        }  # fmt: skip
        if sends.transactional:
            settings["transactional.id"] = topic
        words = [f"{key}={value}" for key, value in settings.items()]
        text = hosts[NEWEST].run(
            "RefusedRecords", bootstrap, topic, *words, stdin=typed([_wave(sends)]), limit_s=LIMIT_S
        )
        return _alike(printed(text), sends)

    return send


def librdkafka(bootstrap: str, topic: str, sends: Sends) -> Result:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "logger": SILENT, "compression.codec": sends.codec, "linger.ms": LINGER_MS,
        "acks": sends.acks, "enable.idempotence": sends.idempotent, "client.id": sends.client_id,
    }  # fmt: skip
    if sends.transactional:
        settings["transactional.id"] = topic
    producer, outcome = Producer(settings), Outcome()

    def delivered(error: KafkaError | None, message: Message) -> None:
        value = (message.value() or b"").decode()
        outcome.results[value] = STORED if error is None else Result(error.name(), error.str())

    if sends.transactional:
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
    for value in sends.values:
        producer.produce(topic, value, b"k", partition=0, on_delivery=delivered)
    assert producer.flush(LIMIT_S) == 0
    if sends.transactional:
        ends_well = all(one == STORED for one in outcome.results.values())
        (producer.commit_transaction if ends_well else producer.abort_transaction)(LIMIT_S)
    return _alike(outcome, sends)


def kafka_python(bootstrap: str, topic: str, sends: Sends) -> Result:
    settings: dict[str, Any] = {"transactional_id": topic} if sends.transactional else {}
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        compression_type=None if sends.codec == "none" else sends.codec,
        linger_ms=LINGER_MS,
        acks=sends.acks if sends.acks == "all" else int(sends.acks),
        enable_idempotence=sends.idempotent,
        client_id=sends.client_id,
        **settings,
    )
    outcome = Outcome()
    try:
        if sends.transactional:
            producer.init_transactions()
            producer.begin_transaction()
        futures = {value: producer.send(topic, value.encode(), b"k", [], 0) for value in sends.values}
        for value, future in futures.items():
            try:
                future.get(LIMIT_S)
                outcome.results[value] = STORED
            except KafkaPythonError as error:
                outcome.results[value] = Result(type(error).__name__, str(error))
        if sends.transactional:
            ends_well = all(one == STORED for one in outcome.results.values())
            (producer.commit_transaction if ends_well else producer.abort_transaction)()
    finally:
        producer.close(LIMIT_S)
    return _alike(outcome, sends)


def aiokafka(bootstrap: str, topic: str, sends: Sends) -> Result:
    async def run() -> Outcome:
        settings: dict[str, Any] = {"transactional_id": topic} if sends.transactional else {}
        outcome = Outcome()
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if sends.codec == "none" else sends.codec,
            linger_ms=LINGER_MS,
            acks=sends.acks if sends.acks == "all" else int(sends.acks),
            enable_idempotence=sends.idempotent,
            client_id=sends.client_id,
            **settings,
        ) as producer:
            if sends.transactional:
                await producer.begin_transaction()
            futures = [await producer.send(topic, value.encode(), b"k", 0) for value in sends.values]
            for value, result in zip(sends.values, await asyncio.gather(*futures, return_exceptions=True), strict=True):
                is_error = isinstance(result, BaseException)
                outcome.results[value] = Result(type(result).__name__, str(result)) if is_error else STORED
            if sends.transactional:
                ends_well = all(one == STORED for one in outcome.results.values())
                await (producer.commit_transaction() if ends_well else producer.abort_transaction())
        return outcome

    return _alike(asyncio.run(asyncio.wait_for(run(), LIMIT_S)), sends)


def franz_go(bootstrap: str, topic: str, sends: Sends) -> Result:
    kind = "transactional" if sends.transactional else "idempotent" if sends.idempotent else "plain"
    words = [
        *other_clients.command("franz-go"), bootstrap, topic, kind, f"acks={sends.acks}", f"codec={sends.codec}",
        f"client-id={sends.client_id}",
    ]  # fmt: skip
    ended = subprocess.run(
        words, input=typed([_wave(sends)]), stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S
    )
    return _alike(printed(ended.stdout), sends)
