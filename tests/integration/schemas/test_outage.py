"""A registry that is away for a while, at a real broker: producers keep their records, each is stored once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from integration.front import Front, started
from integration.scenarios.target import LIMIT_S, SILENT
from kafka import KafkaProducer
from support.http_registry import FakeRegistry, failing, running

pytestmark = pytest.mark.integration

AWAY_S = 4.0
RULES = """schema_registries:
  main: {{urls: ["{url}"], failure_ttl: 1s, timeout: 1s}}
policies:
  strict: {{type: schema, registry: main, require: known}}
  lenient: {{type: schema, registry: main, require: known, on_registry_error: allow}}
topics:
  - {{name: "strict*", policy: strict}}
  - {{name: "lenient*", policy: lenient}}
"""
VALUES = 20


@dataclass(frozen=True, slots=True)
class Registered(Front):
    registry: FakeRegistry

    def new_values(self) -> list[bytes]:
        """Of a schema that the sidecar has not seen."""
        number = self.registry.add(f"s{len(self.registry.schemas)}", '"string"')
        return [b"\0" + number.to_bytes(4) + b"\2" + b"%c" % (65 + at) for at in range(VALUES)]

    def fails(self, seconds: float) -> None:
        """The registry does not answer for so long."""
        self.registry.behaviour = failing(503)
        threading.Timer(seconds, lambda: setattr(self.registry, "behaviour", None)).start()


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registered]:
    with running() as registry, started(Path(tmp_path_factory.mktemp("away")), RULES.format(url=registry.url)) as both:
        yield Registered(*both, registry)


def by_librdkafka(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "logger": SILENT})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(LIMIT_S) == 0


def by_kafka_python(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for future in [producer.send(topic, value) for value in values]:
        future.get(LIMIT_S)
    producer.close()


def by_aiokafka(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send(topic, value) for value in values])
        finally:
            await producer.stop()

    asyncio.run(send())


CLIENTS: dict[str, Callable[[str, str, list[bytes]], None]] = {
    "librdkafka": by_librdkafka, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka,
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_producers_send_again_until_the_registry_answers_and_nothing_is_lost_or_doubled(
    registered: Registered, client: str
) -> None:
    topic, values = registered.topic(f"strict-{client}"), registered.new_values()
    registered.fails(AWAY_S)
    CLIENTS[client](registered.sidecar.bootstrap, topic, values)
    assert registered.stored(topic) == values
    failed = [line for line in registered.lines() if line["message"] == "policy failed"]  # one in ten seconds
    assert failed
    assert "schema registry main: " in str(failed[0]["detail"])


def test_records_are_accepted_where_that_is_configured(registered: Registered) -> None:
    topic, values = registered.topic("lenient"), registered.new_values()
    registered.fails(AWAY_S)
    by_librdkafka(registered.sidecar.bootstrap, topic, values)
    assert registered.registry.behaviour is not None, "none has waited for it"
    assert registered.stored(topic) == values


def test_what_is_known_is_used_while_it_is_away(registered: Registered) -> None:
    topic, values = registered.topic("strict-warm"), registered.new_values()
    by_librdkafka(registered.sidecar.bootstrap, topic, values[:10])
    registered.fails(AWAY_S)
    by_librdkafka(registered.sidecar.bootstrap, topic, values[10:])
    assert registered.registry.behaviour is not None, "none has waited for it"
    assert registered.stored(topic) == values
