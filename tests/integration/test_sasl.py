"""Brokers that demand SASL: the exchange passes untouched, and a restart does not lose the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import SILENT

pytestmark = pytest.mark.integration

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BROKER = {
    "listener.security.protocol.map": "SIDECAR:SASL_PLAINTEXT,DIRECT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.sidecar.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sidecar.plain.sasl.jaas.config": f'{LOGIN} user_app="secret";',
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(NEWEST, 1, BROKER) as cluster:
        yield cluster


def producer(bootstrap: str, password: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "logger": SILENT,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "app",
            "sasl.password": password,
        }
    )


def send(producer: Producer, number: int) -> None:
    errors: list[object] = []
    producer.produce("secured", str(number), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]


def test_a_client_logs_in_at_the_broker_through_the_sidecar(cluster: Cluster, tmp_path: Path) -> None:
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log") as sidecar:
        send(producer(sidecar.bootstrap, "secret"), 1)
        with pytest.raises(KafkaException):
            producer(sidecar.bootstrap, "wrong").list_topics(timeout=5)
    assert cluster.leaks() == []


def test_a_client_that_knows_only_the_node_finds_it_after_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    settings = tmp_path / "sidecar.yaml"
    settings.write_text(f"nodes: {{state_file: {tmp_path / 'nodes.json'}}}\n")
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(settings)]) as sidecar:
        bootstrap = producer(sidecar.bootstrap, "secret")
        send(bootstrap, 1)
        node = next(iter(bootstrap.list_topics(timeout=20).brokers.values()))
        sidecar.restart()
        send(producer(f"{node.host}:{node.port}", "secret"), 2)
