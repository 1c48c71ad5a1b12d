"""No client ever connects past the sidecar: not when leaders move, not when brokers come and go.

Each broker logs who connects to the listener that only the sidecar should know; the sidecar comes from an address of
its own. Every other test of this folder is held to the same (conftest.py, `no_leak`).
"""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness.cluster import SIDECAR_HOST, Cluster
from harness.sidecar import Sidecar
from harness.tool_host import Answer, ToolHost
from harness.versions import NEWEST
from integration.scenarios.java_tools import Tools
from integration.scenarios.target import Target, create_topic

pytestmark = pytest.mark.integration

PER_SECOND = 1_000
LIMIT_S = 70


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(NEWEST, 3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def sidecar(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    log = tmp_path_factory.mktemp("sidecar") / "sidecar.log"
    with Sidecar.start(cluster.bootstrap, log) as sidecar:
        yield sidecar


@dataclass(frozen=True, slots=True)
class Clients:
    """Java's idempotent producer, its consumer and its share consumer, all at work on one topic for some seconds."""

    working: Mapping[str, Future[Answer]]

    @classmethod
    def start(cls, bootstrap: str, topic: str, host: ToolHost, seconds: int) -> Clients:
        count = seconds * PER_SECOND
        consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        arguments = {
            "NumberedProducer": (bootstrap, topic, count, PER_SECOND),
            "Kafka4ShareReader": (bootstrap, topic, f"share of {topic}", count),
            consumer: ("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", count),
        }
        return cls({main: host.start(main, *words, limit_s=LIMIT_S) for main, words in arguments.items()})

    def must_succeed(self) -> None:
        for main, work in self.working.items():
            answer = work.result(LIMIT_S + 20)
            assert answer.code == 0, f"{main}: {answer.code} {answer.err[-2000:]}"


def move(tools: Tools, folder: Path, topic: str, replicas: list[int]) -> None:
    """Moves partition 0 to these brokers; the first of them leads."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
    tools.run("ReassignPartitionsCommand", "--reassignment-json-file", plan, "--execute")
    tools.expect("is completed", "ReassignPartitionsCommand", "--reassignment-json-file", plan, "--verify")
    tools.expect("", "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)


def edited(sidecar: Sidecar, api: str) -> float:
    """How many responses of an API had to be edited."""
    with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=5) as answer:
        found = re.search(rf'^kafka_sidecar_held_total{{api_key="{api}"}} (\S+)', answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_direct_connection_is_seen_by_the_broker(cluster: Cluster) -> None:
    port = cluster.node(1).ports.sidecar
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        own_port = client.getsockname()[1]
        deadline = time.monotonic() + 10
        while not (seen := cluster.leaks()) and time.monotonic() < deadline:
            time.sleep(0.1)
    assert [(leak.remote_port, leak.local_port) for leak in seen] == [(own_port, port)]


def test_clients_that_are_told_of_a_new_leader_go_there_through_the_sidecar(
    cluster: Cluster, sidecar: Sidecar, java: Mapping[str, ToolHost], tmp_path: Path
) -> None:
    before = cluster.leaks()
    host = java[NEWEST]
    tools = Tools(Target(cluster.direct, "leaders", 3, java), host)
    create_topic(cluster.direct, "leaders", 1)
    clients = Clients.start(sidecar.bootstrap, "leaders", host, seconds=18)
    for replicas in ([2, 3, 1], [3, 1, 2], [1, 2, 3], [2, 3, 1]):
        time.sleep(2)
        move(tools, tmp_path, "leaders", replicas)
    clients.must_succeed()
    assert edited(sidecar, "Produce") > 0, "no answer named a new leader (KIP-951): this test shows nothing"
    assert cluster.leaks() == before


def test_brokers_that_come_and_go_are_reached_through_the_sidecar_alone(
    cluster: Cluster, sidecar: Sidecar, java: Mapping[str, ToolHost], tmp_path: Path
) -> None:
    before = cluster.leaks()
    host = java[NEWEST]
    tools = Tools(Target(cluster.direct, "brokers", 3, java), host)
    create_topic(cluster.direct, "brokers", 1)
    clients = Clients.start(sidecar.bootstrap, "brokers", host, seconds=25)
    added = cluster.add_node()
    move(tools, tmp_path, "brokers", [added.id, 1])
    time.sleep(3)
    came = {connection.remote_host for connection in added.accepted() if connection.local_port == added.ports.sidecar}
    assert came == {SIDECAR_HOST}, "nobody came to the new broker through the sidecar"
    move(tools, tmp_path, "brokers", [1, 2, 3])
    cluster.remove_node(added.id)
    clients.must_succeed()
    assert cluster.leaks() == before
