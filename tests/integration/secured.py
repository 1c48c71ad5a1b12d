"""Sidecars with TLS, and four clients that connect to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from integration.scenarios.security import Security, properties_file
from integration.scenarios.target import LIMIT_S, SILENT
from kafka import KafkaConsumer, KafkaProducer


@contextmanager
def sidecar(cluster: Cluster, folder: Path, *sections: Mapping[str, Any], ready: bool = True) -> Iterator[Sidecar]:
    """A sidecar with these sections; without ``ready`` one that cannot reach the cluster."""
    path = folder / "sidecar.yaml"
    path.write_text(yaml.safe_dump({key: value for section in sections for key, value in section.items()}))
    with Sidecar(cluster.bootstrap, folder / "sidecar.log", ["--config", str(path)]) as started:
        started.program.wait_for(lambda: '"serving"' in started.program.output(), "serving", 20)
        if ready:
            started.wait()
        yield started


Exchange = Callable[[str, str, Security, Sequence[str]], list[str]]  # sends values, returns what is read


def librdkafka(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
    common = {"bootstrap.servers": bootstrap, "logger": SILENT, **security.librdkafka}
    producer = Producer(common)
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert set(errors) == {None}
    consumer = Consumer({**common, "group.id": f"{topic}-rd", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = [one.value().decode() for one in consumer.consume(len(values), LIMIT_S)]  # type: ignore[union-attr]
    consumer.close()
    return read


def aiokafka(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
    async def exchange() -> list[str]:
        common = {"bootstrap_servers": bootstrap, **security.python}
        async with asyncio.timeout(LIMIT_S):
            async with AIOKafkaProducer(**common) as producer:
                for value in values:
                    await producer.send_and_wait(topic, value.encode())
            async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common) as consumer:
                return [(await consumer.getone()).value.decode() for _ in values]

    return asyncio.run(exchange())


def kafka_python(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
    common = {"bootstrap_servers": bootstrap, "request_timeout_ms": 20_000, **security.python}
    producer = KafkaProducer(**common)
    for sent in [producer.send(topic, value.encode()) for value in values]:
        sent.get(LIMIT_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **common)
    read = [record.value.decode() for _, record in zip(values, consumer, strict=False)]
    consumer.close()
    return read


def java_tools(host: ToolHost, folder: Path) -> Exchange:
    """Kafka's console tools in this JVM."""

    def exchange(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
        settings = properties_file(folder, security.java)
        tools, lines = "org.apache.kafka.tools", "".join(f"{value}\n" for value in values)
        common = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", settings]
        host.run(f"{tools}.ConsoleProducer", *common, stdin=lines)
        read = host.run(
            f"{tools}.consumer.ConsoleConsumer", *common, "--from-beginning", "--max-messages", len(values),
            "--timeout-ms", 20_000,
        )  # fmt: skip
        return read.splitlines()

    return exchange
