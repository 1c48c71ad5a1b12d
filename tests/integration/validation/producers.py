"""The producers of four client libraries, each with the same few settings."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, eventually
from integration.validation.waves import (
    BATCH_BYTES,
    IN_FLIGHT,
    LINGER_MS,
    STORED,
    Client,
    Kind,
    Outcome,
    Result,
    Sent,
    Wave,
    printed,
    typed,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaProducer
    from kafka.errors import KafkaError as KafkaPythonError

HEADERS: list[tuple[str, str | bytes | None]] = [("h", b"1")]
KEY = b"k"
# Their sidecar may crash three times meanwhile, and takes seconds to start while other tests use the machine.
PATIENCE_S = 4 * LIMIT_S


def clients(java_hosts: Mapping[str, ToolHost]) -> Mapping[str, Client]:
    """By the library's name."""
    return {"java": java(java_hosts), "librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}


def java(hosts: Mapping[str, ToolHost]) -> Client:
    def run(bootstrap: str, topic: str, codec: str, kind: Kind, waves: Sequence[Wave]) -> Outcome:
        settings = {
            "compression.type": codec,
            "enable.idempotence": str(kind != "plain").lower(),
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "max.in.flight.requests.per.connection": IN_FLIGHT,
        }
        if kind == "transactional":
            settings["transactional.id"] = topic
        arguments = [f"{key}={value}" for key, value in settings.items()]
        return printed(
            hosts[NEWEST].run(
                "RefusedRecords", bootstrap, topic, *arguments, stdin=typed(waves), limit_s=int(PATIENCE_S)
            )
        )

    return run


def librdkafka(bootstrap: str, topic: str, codec: str, kind: Kind, waves: Sequence[Wave]) -> Outcome:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "logger": SILENT, "compression.codec": codec, "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES, "max.in.flight": IN_FLIGHT, "enable.idempotence": kind != "plain",
    }  # fmt: skip
    if kind == "transactional":
        settings["transactional.id"] = topic
    producer, outcome = Producer(settings), Outcome()

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcome.results[(message.value() or b"").decode()] = (
            STORED if error is None else Result(error.name(), error.str())
        )

    if kind == "transactional":
        producer.init_transactions(PATIENCE_S)
    for wave in waves:
        if kind == "transactional":
            producer.begin_transaction()
        for sent in wave:
            key, headers = (KEY, HEADERS) if sent.is_good else (None, None)
            producer.produce(topic, sent.value, key, headers=headers, partition=0, on_delivery=delivered)
        assert producer.flush(PATIENCE_S) == 0
        outcome.ends.append(_ended(producer) if kind == "transactional" else "")
    return outcome


def _ended(producer: Producer) -> str:
    try:
        producer.commit_transaction(PATIENCE_S)
    except KafkaException as failure:
        error = failure.args[0]
        assert error.txn_requires_abort()
        producer.abort_transaction(PATIENCE_S)
        return str(error.name())
    return ""


def kafka_python(bootstrap: str, topic: str, codec: str, kind: Kind, waves: Sequence[Wave]) -> Outcome:
    settings: dict[str, Any] = {"transactional_id": topic} if kind == "transactional" else {}
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        compression_type=None if codec == "none" else codec,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        max_in_flight_requests_per_connection=IN_FLIGHT,
        enable_idempotence=kind != "plain",
        **settings,
    )
    outcome = Outcome()
    try:
        if kind == "transactional":
            producer.init_transactions()
        for wave in waves:
            if kind == "transactional":
                eventually(partial(_has_begun, producer), bool, "a further transaction")
            futures = [
                producer.send(topic, sent.value.encode(), *((KEY, HEADERS) if sent.is_good else (None, [])), 0)
                for sent in wave
            ]
            outcome.ends.append(_settled(producer, kind, dict(zip(wave, futures, strict=True)), outcome))
    finally:
        producer.close(PATIENCE_S)
    return outcome


def _has_begun(producer: KafkaProducer) -> bool:
    """Begin a transaction: False while the producer's epoch is being raised after an error."""
    try:
        producer.begin_transaction()
    except KafkaPythonError:
        return False
    return True


def _settled(producer: KafkaProducer, kind: Kind, futures: Mapping[Sent, Any], outcome: Outcome) -> str:
    """Ask what became of each record. A transaction is aborted at the first failure: a flush would not end before."""
    end = ""
    for sent, future in futures.items():
        try:
            future.get(PATIENCE_S)
            outcome.results[sent.value] = STORED
        except KafkaPythonError as error:
            outcome.results[sent.value] = Result(type(error).__name__, str(error))
            if kind == "transactional" and not end:
                end = type(error).__name__
                with contextlib.suppress(KafkaPythonError):  # it may have given up for good
                    producer.abort_transaction()
    if kind == "transactional" and not end:
        producer.commit_transaction()
    return end


def aiokafka(bootstrap: str, topic: str, codec: str, kind: Kind, waves: Sequence[Wave]) -> Outcome:
    async def run() -> Outcome:
        settings: dict[str, Any] = {"transactional_id": topic} if kind == "transactional" else {}
        outcome = Outcome()
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            enable_idempotence=kind != "plain",
            **settings,
        ) as producer:
            for wave in waves:
                outcome.ends.append(await _sent(producer, topic, kind, wave, outcome))
        return outcome

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


async def _sent(producer: AIOKafkaProducer, topic: str, kind: Kind, wave: Wave, outcome: Outcome) -> str:
    if kind == "transactional":
        await producer.begin_transaction()
    futures = [
        await producer.send(
            topic, sent.value.encode(), KEY if sent.is_good else None, 0, headers=HEADERS if sent.is_good else None
        )
        for sent in wave
    ]
    end = ""
    for sent, said in zip(wave, await asyncio.gather(*futures, return_exceptions=True), strict=True):
        is_error = isinstance(said, BaseException)
        outcome.results[sent.value] = Result(type(said).__name__, str(said)) if is_error else STORED
        end = end or outcome.results[sent.value].error
    if kind == "transactional":
        # It would commit what is left of the wave: whether a record was refused is for the application to see.
        await (producer.abort_transaction() if end else producer.commit_transaction())
        return end
    return ""
