"""Sidecars with TLS, and four clients that connect to them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
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


@dataclass(frozen=True, slots=True)
class Security:
    """How a client connects: its CA and its own certificate, as files; None: plaintext."""

    ca: Path | None = None
    own: tuple[Path, Path] | None = None

    @property
    def protocol(self) -> str:
        return "PLAINTEXT" if self.ca is None else "SSL"

    @property
    def context(self) -> ssl.SSLContext | None:
        if self.ca is None:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.own is not None:
            context.load_cert_chain(*self.own)
        return context

    @property
    def java(self) -> dict[str, str]:
        found = {"security.protocol": self.protocol}
        if self.ca is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if self.own is not None:
            both = self.own[0].with_suffix(".both")
            both.write_text(self.own[1].read_text() + self.own[0].read_text())
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
        return found

    @property
    def librdkafka(self) -> dict[str, Any]:
        found: dict[str, Any] = {"security.protocol": self.protocol, "logger": SILENT}
        if self.ca is not None:
            found["ssl.ca.location"] = str(self.ca)
        if self.own is not None:
            found |= {"ssl.certificate.location": str(self.own[0]), "ssl.key.location": str(self.own[1])}
        return found


Exchange = Callable[[str, str, Security, Sequence[str]], list[str]]  # sends values, returns what is read


def librdkafka(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
    producer = Producer({"bootstrap.servers": bootstrap, **security.librdkafka})
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert set(errors) == {None}
    settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-rd", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **security.librdkafka})
    consumer.subscribe([topic])
    read = [one.value().decode() for one in consumer.consume(len(values), LIMIT_S)]  # type: ignore[union-attr]
    consumer.close()
    return read


def aiokafka(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
    async def exchange() -> list[str]:
        common = {
            "bootstrap_servers": bootstrap, "security_protocol": security.protocol, "ssl_context": security.context,
        }  # fmt: skip
        async with asyncio.timeout(LIMIT_S):
            async with AIOKafkaProducer(**common) as producer:
                for value in values:
                    await producer.send_and_wait(topic, value.encode())
            async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common) as consumer:
                return [(await consumer.getone()).value.decode() for _ in values]

    return asyncio.run(exchange())


def kafka_python(bootstrap: str, topic: str, security: Security, values: Sequence[str]) -> list[str]:
    common = {
        "bootstrap_servers": bootstrap, "security_protocol": security.protocol, "ssl_context": security.context,
        "request_timeout_ms": 20_000,
    }  # fmt: skip
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
        settings = folder / "client.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in security.java.items()))
        tools, lines = "org.apache.kafka.tools", "".join(f"{value}\n" for value in values)
        common = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", settings]
        host.run(f"{tools}.ConsoleProducer", *common, stdin=lines)
        read = host.run(
            f"{tools}.consumer.ConsoleConsumer", *common, "--from-beginning", "--max-messages", len(values),
            "--timeout-ms", 20_000,
        )  # fmt: skip
        return read.splitlines()

    return exchange
