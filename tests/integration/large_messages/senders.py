"""Producers of four client libraries that send large values, and what became of each."""

from __future__ import annotations

import asyncio
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaProducer
    from kafka.errors import KafkaError as KafkaPythonError

LIBRARIES = ("java", "librdkafka", "aiokafka", "kafka-python")
MAX_REQUEST = 150 << 20
LINGER_MS = 100  # the values of a wave are one batch

Waves = Sequence[Sequence[bytes]]  # the values of a wave are sent at once, then all are waited for


@dataclass(frozen=True, slots=True)
class How:
    """What producers of all libraries can be configured to do."""

    codec: str = "none"
    acks: str = "all"
    is_idempotent: bool = True


PLAINLY = How()


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one value."""

    offset: int
    error: str = ""  # its name
    text: str = ""


class Sender(Protocol):
    def __call__(self, bootstrap: str, topic: str, waves: Waves, how: How = ...) -> list[Sent]: ...


def senders(hosts: Mapping[str, ToolHost]) -> Mapping[str, Sender]:
    """By the library's name."""
    return {"java": java(hosts), "librdkafka": librdkafka, "aiokafka": aiokafka, "kafka-python": kafka_python}


def java(hosts: Mapping[str, ToolHost]) -> Sender:
    def send(bootstrap: str, topic: str, waves: Waves, how: How = PLAINLY) -> list[Sent]:
        settings = {
            "compression.type": how.codec,
            "acks": how.acks,
            "enable.idempotence": str(how.is_idempotent).lower(),
            "linger.ms": LINGER_MS,
            "batch.size": max(sum(map(len, wave)) for wave in waves) + 10_000,
            "max.request.size": MAX_REQUEST,
            "buffer.memory": 2 * MAX_REQUEST,
        }
        arguments = [f"{key}={value}" for key, value in settings.items()]
        with tempfile.TemporaryDirectory() as folder:
            lines: list[str] = []
            for number, wave in enumerate(waves):
                paths = [Path(folder, f"{number}-{at}") for at in range(len(wave))]
                for path, value in zip(paths, wave, strict=True):
                    path.write_bytes(value)
                lines += [*map(str, paths), ""]
            text = "\n".join(lines) + "\n"
            out = hosts[NEWEST].run("FileRecords", bootstrap, topic, *arguments, stdin=text, limit_s=120)
        fields = (line.split("\t", 3) for line in out.splitlines())
        return [Sent(int(offset), error, about) for _, offset, error, about in fields]

    return send


def librdkafka(bootstrap: str, topic: str, waves: Waves, how: How = PLAINLY) -> list[Sent]:
    producer = Producer({
        "bootstrap.servers": bootstrap, "logger": SILENT, "compression.codec": how.codec, "linger.ms": LINGER_MS,
        "acks": how.acks, "enable.idempotence": how.is_idempotent, "message.max.bytes": MAX_REQUEST,
        "batch.size": MAX_REQUEST, "queue.buffering.max.kbytes": MAX_REQUEST >> 9, "retry.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
    })  # fmt: skip
    found: list[Sent] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None:
            found.append(Sent(-1 if offset is None else offset))
        else:
            found.append(Sent(-1, error.name(), error.str()))

    for wave in waves:
        for value in wave:
            producer.produce(topic, value, b"key", partition=0, on_delivery=delivered)
        assert producer.flush(2 * LIMIT_S) == 0
    return found


def kafka_python(bootstrap: str, topic: str, waves: Waves, how: How = PLAINLY) -> list[Sent]:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        compression_type=None if how.codec == "none" else how.codec,
        acks=how.acks if how.acks == "all" else int(how.acks),
        enable_idempotence=how.is_idempotent,
        linger_ms=LINGER_MS,
        batch_size=MAX_REQUEST,
        max_request_size=MAX_REQUEST,
    )
    found: list[Sent] = []
    try:
        for wave in waves:
            futures = [producer.send(topic, value, b"key", [], 0) for value in wave]
            for future in futures:
                try:
                    found.append(Sent(future.get(2 * LIMIT_S).offset))
                except KafkaPythonError as error:
                    found.append(Sent(-1, type(error).__name__, str(error)))
    finally:
        producer.close(LIMIT_S)
    return found


def aiokafka(bootstrap: str, topic: str, waves: Waves, how: How = PLAINLY) -> list[Sent]:
    async def run() -> list[Sent]:
        found: list[Sent] = []
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            acks=how.acks if how.acks == "all" else int(how.acks),
            enable_idempotence=how.is_idempotent,
            linger_ms=LINGER_MS,
            max_batch_size=MAX_REQUEST,
            max_request_size=MAX_REQUEST,
        ) as producer:
            for wave in waves:
                sent: list[Any] = [await producer.send(topic, value, b"key", 0) for value in wave]
                found += map(_settled, await asyncio.gather(*sent, return_exceptions=True))
        return found

    return asyncio.run(asyncio.wait_for(run(), 4 * LIMIT_S))


def _settled(result: Any) -> Sent:
    if isinstance(result, BaseException):
        return Sent(-1, type(result).__name__, str(result))
    return Sent(-1 if result is None else result.offset)  # with acks=0 there is none
