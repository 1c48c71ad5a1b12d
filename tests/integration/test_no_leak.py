"""No client learns a broker's address: the brokers themselves say who connected to them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from harness.cluster import SIDECAR_HOST, Cluster, Node
from harness.sidecar import Sidecar
from harness.tls import CLIENTS_CA, from_clients, ssl_listener, to_brokers
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.fronts import PLAIN
from integration.partitions import move
from integration.runs import Arena
from integration.scenarios.security import Security
from integration.scenarios.target import LIMIT_S, admin_client, create_topic, eventually
from integration.secured import aiokafka, java_tools, librdkafka, sidecar

pytestmark = pytest.mark.integration
three_nodes = pytest.mark.parametrize("arena", [(NEWEST, 3, PLAIN)], indirect=True, scope="session")

RECORDS, PER_SECOND = 1000, 200


class Traffic:
    """A producer, a consumer group and a share consumer of Java that run through the sidecar until they are ended."""

    def __init__(self, arena: Arena, topic: str, signals: Path) -> None:
        host, bootstrap, limit_s = arena.java[NEWEST], arena.sidecar.bootstrap, 120
        self._signals = signals
        group = f"{topic}-share"
        _read_from_the_beginning(host, arena.cluster.direct, group)
        self._calls = [
            host.start("Traffic", "consume", bootstrap, topic, signals, limit_s, limit_s=limit_s + 5),
            host.start("Kafka4Traffic", bootstrap, topic, group, signals, limit_s, limit_s=limit_s + 5),
            host.start("Traffic", "produce", bootstrap, topic, signals, RECORDS, PER_SECOND, limit_s=limit_s),
        ]

    @property
    def is_running(self) -> bool:
        return not any(call.done() for call in self._calls)

    def end(self) -> None:
        """Raises unless all was acknowledged, and all have seen every record."""
        (self._signals / "stop").touch()
        answers = [call.result(150) for call in self._calls]
        assert [answer.code for answer in answers] == [0, 0, 0], answers
        assert answers[-1].out == f"acked {(self._signals / 'sent').read_text()}\n"


def _read_from_the_beginning(host: ToolHost, bootstrap: str, group: str) -> None:
    entity = ["--entity-type", "groups", "--entity-name", group]
    setting = ["--add-config", "share.auto.offset.reset=earliest"]
    host.run("org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", bootstrap, "--alter", *entity, *setting)


def _hosts_that_came_to(node: Node) -> set[str]:
    return {connection.remote_host for connection in node.accepted() if connection.local_port == node.ports.sidecar}


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[tuple[Cluster, Sidecar]]:
    """A cluster and a sidecar whose count of connections may be spoilt."""
    with Cluster.start(NEWEST) as cluster, Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log") as sidecar:
        yield cluster, sidecar


def _list_topics(bootstrap: str) -> None:
    admin_client(bootstrap).list_topics(timeout=LIMIT_S)


def test_the_count_sees_a_client_that_goes_past_the_sidecar(lonely: tuple[Cluster, Sidecar]) -> None:
    cluster, sidecar = lonely
    _list_topics(sidecar.bootstrap)
    assert cluster.leaks() == []
    assert any(connection.remote_host == SIDECAR_HOST for connection in cluster.node(1).accepted())

    _list_topics(cluster.bootstrap)

    assert {leak.remote_host for leak in cluster.leaks()} == {"127.0.0.1"}


@three_nodes
def test_clients_follow_a_leader_that_moves_through_the_sidecar(arena: Arena, tmp_path: Path) -> None:
    topic = "leader-moves"
    create_topic(arena.cluster.direct, topic, 3)
    traffic = Traffic(arena, topic, tmp_path)

    for turn in range(3):
        order = [(node + turn) % 3 + 1 for node in range(3)]
        move(arena.cluster, arena.java[NEWEST], topic, [order[shift:] + order[:shift] for shift in range(3)])
        assert traffic.is_running

    traffic.end()
    assert arena.cluster.leaks() == []


@three_nodes
def test_clients_reach_an_added_broker_and_leave_a_removed_one_through_the_sidecar(
    arena: Arena, tmp_path: Path
) -> None:
    topic = "broker-comes-and-goes"
    create_topic(arena.cluster.direct, topic, 3)
    traffic = Traffic(arena, topic, tmp_path)

    added = arena.cluster.add_node()
    move(arena.cluster, arena.java[NEWEST], topic, [[added.id, 1, 2], [added.id, 2, 3], [3, added.id, 1]])
    eventually(lambda: _hosts_that_came_to(added), bool, "the added broker is reached")
    assert traffic.is_running
    move(arena.cluster, arena.java[NEWEST], topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    arena.cluster.remove_node(added.id)

    traffic.end()
    assert _hosts_that_came_to(added) == {SIDECAR_HOST}
    assert arena.cluster.leaks() == []


def _names_shown_at(address: str, name: str, folder: Path) -> set[str]:
    """Every common name in what a listener sends in its handshake, to a client that asks for this host."""
    command = ["openssl", "s_client", "-connect", address, "-servername", name, "-showcerts", "-tls1_2"]
    ca = ["-CAfile", str(CLIENTS_CA.write(folder, "shown"))]
    done = subprocess.run([*command, *ca], input="Q\n", capture_output=True, text=True, timeout=20, check=False)
    return set(re.findall(r"CN ?= ?([^\n,/]+)", done.stdout))


@pytest.mark.matrix
def test_with_tls_on_both_sides_clients_see_the_sidecar_alone(java: Mapping[str, ToolHost], tmp_path: Path) -> None:
    values = [f"value {number}" for number in range(300)]
    own = Security(CLIENTS_CA.write(tmp_path, "ca"), CLIENTS_CA.issue("app").write(tmp_path, "app"))
    sections = to_brokers(tmp_path, own="sidecar-to-broker"), from_clients(tmp_path, client_certificates="required")
    properties = ssl_listener(tmp_path, "required")
    with Cluster.start(NEWEST, 3, properties) as cluster, sidecar(cluster, tmp_path, *sections) as running:
        for number, client in enumerate((java_tools(java[NEWEST], tmp_path), librdkafka, aiokafka)):
            create_topic(cluster.direct, f"secured-{number}", 6)
            assert sorted(client(running.bootstrap, f"secured-{number}", own, values)) == sorted(values)
        assert [_hosts_that_came_to(node) for node in cluster.nodes.values()] == [{SIDECAR_HOST}] * 3
        assert cluster.leaks() == []
        host, _, port = running.bootstrap.rpartition(":")
        for listener in (int(port), *(int(port) + 1 + node for node in cluster.nodes)):
            for name in ("localhost", "broker", "kafka-1.example.com"):
                assert _names_shown_at(f"{host}:{listener}", name, tmp_path) == {"sidecar", "Clients CA"}
