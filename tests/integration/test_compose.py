"""compose.yaml without containers: both services run as processes with the commands and settings of the file."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Message, Producer
from harness.jvm import STARTED, java, new_id
from harness.ports import free_ports
from harness.processes import Program
from harness.versions import NEWEST

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
COMPOSE: Mapping[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
KAFKA, SIDECAR = COMPOSE["services"]["kafka"], COMPOSE["services"]["sidecar"]
PORTS = ("9092", "9093", "9190", "19092", "19094")  # of the file
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Network:
    """What containers have of their own, on this machine: hosts' names are 127.0.0.1, ports are free ones."""

    ports: Mapping[str, str]

    @classmethod
    def free(cls) -> Network:
        first = free_ports(6)
        listen = free_ports(3)  # broker 1 is two after the bootstrap listener
        chosen = [first[0], first[1], first[2], listen[0], listen[2]]
        return cls(dict(zip(PORTS, map(str, chosen), strict=True)))

    def adapt(self, text: str) -> str:
        text = text.replace("kafka:9", "127.0.0.1:9").replace("0.0.0.0", "127.0.0.1")
        return re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda port: self.ports[port[0]], text)


@pytest.fixture(scope="module")
def network() -> Network:
    return Network.free()


@pytest.fixture(scope="module")
def kafka(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The service `kafka`: its image makes properties of the variables, as here."""
    folder = tmp_path_factory.mktemp("kafka")
    assert KAFKA["image"] == f"apache/kafka:{NEWEST}"
    settings = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): network.adapt(value)
        for name, value in KAFKA["environment"].items()
    }
    (folder / "data").mkdir()
    settings["log.dirs"] = str(folder / "data")
    config = folder / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    format_command = java(NEWEST, "kafka.tools.StorageTool", "format", "--cluster-id", new_id(), "--config", config)
    subprocess.run([*map(str, format_command)], check=True, capture_output=True, timeout=180)
    program = Program(java(NEWEST, "kafka.Kafka", config), folder / "log")
    try:
        program.wait_for(lambda: STARTED in program.output(), STARTED, 180)
        yield program
    finally:
        program.kill()


@pytest.fixture(scope="module")
def sidecar(network: Network, kafka: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The service `sidecar`, once its own health check says that it is healthy."""
    folder = tmp_path_factory.mktemp("sidecar")
    (mounted,) = SIDECAR["configs"]
    file = folder / "sidecar.yaml"
    file.write_text(network.adapt(COMPOSE["configs"][mounted["source"]]["content"]))
    words = [str(file) if word == mounted["target"] else word for word in SIDECAR["command"]]
    program = Program([BIN / "kafka-sidecar", *words], folder / "log")
    try:
        program.wait_for(lambda: is_healthy(network), "healthy", 60)
        yield program
    finally:
        program.kill()


def is_healthy(network: Network) -> bool:
    kind, name, *words = SIDECAR["healthcheck"]["test"]
    assert (kind, name) == ("CMD", "python")
    command = [BIN / name, *map(network.adapt, words)]
    return subprocess.run(command, check=False, capture_output=True, timeout=30).returncode == 0


def test_a_client_of_the_published_port_writes_what_the_policy_allows(sidecar: Program, network: Network) -> None:
    bootstrap = f"127.0.0.1:{network.ports['19092']}"
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 1})
    for value in ("{}", "{", "[1]"):
        producer.produce(
            "payments", value, headers={"trace-id": "1"}, on_delivery=lambda error, _: outcomes.append(error)
        )
        assert producer.flush(60) == 0
    good, bad, other = outcomes
    assert (good, other) == (None, None)
    assert bad is not None
    assert bad.code() == KafkaError.INVALID_RECORD
    named = {f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=30).brokers.values()}
    assert named == {f"127.0.0.1:{network.ports['19094']}"}
    assert values_of("payments", bootstrap, 2) == [b"{}", b"[1]"]


def values_of(topic: str, bootstrap: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "compose", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[Message] = []
    ends_s = time.monotonic() + 60
    while len(read) < count and time.monotonic() < ends_s:
        read += consumer.consume(count, timeout=1)
    consumer.close()
    return [message.value() for message in read]


def test_it_ends_within_the_time_that_compose_gives_it(sidecar: Program) -> None:
    began_s = time.monotonic()
    assert sidecar.stop() == 0
    assert time.monotonic() - began_s < float(SIDECAR["stop_grace_period"].removesuffix("s"))
