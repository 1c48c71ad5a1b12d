"""Messages in files under other conditions: TLS, two workers, a drain, files that may not be large, no broker."""

from __future__ import annotations

import json
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from harness.cluster import Cluster
from harness.sidecar import COMMAND, NODE_PORTS, Sidecar
from harness.tls import CLIENTS_CA, from_clients
from harness.versions import NEWEST
from integration.large_messages.slow_consumers import (
    BUDGET_MB,
    CONFIG,
    SIZES,
    TOPIC,
    SlowConsumer,
    metrics,
    read_one,
    send,
)
from integration.large_messages.test_budget import peak_mib
from integration.scenarios.security import Security
from integration.scenarios.target import SILENT, create_topic, eventually

pytestmark = [pytest.mark.integration, pytest.mark.matrix]
CLIENTS = 6
LIMIT_S = 120.0
FILE_LIMIT = 30_000_000  # more than the first message, less than the others
PAGE_S = 1.1  # the page of metrics is of this second
Messages = Sequence[tuple[int, bytes]]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Messages]]:
    """A broker, and the messages of its log by offset."""
    folder = tmp_path_factory.mktemp("stored")
    with Cluster.start(NEWEST) as cluster:
        create_topic(cluster.direct, TOPIC, 1)
        with spilling(cluster, folder) as sidecar:
            messages = send(sidecar)
        yield cluster, messages
        assert cluster.leaks() == []


@contextmanager
def spilling(
    cluster: Cluster, folder: Path, *sections: Mapping[str, Any], command: Path = COMMAND
) -> Iterator[Sidecar]:
    """A sidecar whose files are in a folder of their own, which is empty at the end."""
    files = folder / "spill"
    files.mkdir()
    config = yaml.safe_load(CONFIG.format(folder=files, limit="1GiB"))
    for section in sections:
        config |= {name: config.get(name, {}) | one if isinstance(one, dict) else one for name, one in section.items()}
    (folder / "sidecar.yaml").write_text(yaml.safe_dump(config))
    flags = ["--config", str(folder / "sidecar.yaml")]
    with Sidecar.start(cluster.bootstrap, folder / "sidecar.log", flags, command) as sidecar:
        yield sidecar
    assert list(files.iterdir()) == []


def read_at_once(messages: Messages, clients: Sequence[SlowConsumer], has_begun: Callable[[], object]) -> None:
    """Each client gets one of the messages, in turn."""
    starts = [0, *(offset + 1 for offset, _ in messages)]

    def read(number: int) -> bool:
        at = number % len(messages)
        return read_one(clients[number], starts[at], messages[at], has_begun)

    with ThreadPoolExecutor(len(clients)) as pool:
        assert all(pool.map(read, range(len(clients))))


def ended(sidecar: Sidecar) -> set[str]:
    """The causes of connections that have ended."""
    lines = map(json.loads, sidecar.log.read_text().splitlines())
    return {line["cause"] for line in lines if line["message"] == "connection ended"}


def test_clients_with_tls_are_served_at_the_same_time(stored: tuple[Cluster, Messages], tmp_path: Path) -> None:
    cluster, messages = stored
    security = Security(CLIENTS_CA.write(tmp_path, "sidecar-ca"))
    with spilling(cluster, tmp_path, from_clients(tmp_path)) as sidecar:
        before, barrier = peak_mib(sidecar.program.pid), Barrier(CLIENTS)
        clients = [SlowConsumer(sidecar.bootstrap, security.context) for _ in range(CLIENTS)]
        read_at_once(messages, clients, lambda: barrier.wait(LIMIT_S))
        found = closed(sidecar)
        assert found["spilled_total"] >= CLIENTS
        assert peak_mib(sidecar.program.pid) - before < BUDGET_MB + 40
        assert read_by_librdkafka(sidecar, security, len(messages)) == [value for _, value in messages]
        time.sleep(PAGE_S)
        assert closed(sidecar)["spilled_total"] > found["spilled_total"]


def closed(sidecar: Sidecar) -> dict[str, float]:
    """The counters once there are no files."""
    return eventually(lambda: metrics(sidecar), lambda found: found["spill_bytes"] == 0, "all files are closed")


def read_by_librdkafka(sidecar: Sidecar, security: Security, count: int) -> list[bytes | None]:
    consumer = Consumer({
        "bootstrap.servers": sidecar.bootstrap, "group.id": "tls", "auto.offset.reset": "earliest", "logger": SILENT,
        "check.crcs": True, **security.librdkafka,
    })  # fmt: skip
    try:
        consumer.subscribe([TOPIC])
        found: list[bytes | None] = []
        while len(found) < count:
            message = consumer.poll(LIMIT_S)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(message.value())
        return found
    finally:
        consumer.close()


def test_each_of_two_workers_has_files_of_its_own(stored: tuple[Cluster, Messages], tmp_path: Path) -> None:
    cluster, messages = stored
    more = {"workers": 2, "nodes": {"ports": NODE_PORTS}, "connections": {"max_buffered": f"{2 * BUDGET_MB}MiB"}}
    held: list[float] = []

    def look() -> None:
        time.sleep(PAGE_S)
        held.append(metrics(sidecar)["spill_bytes"])

    with spilling(cluster, tmp_path, more) as sidecar:
        barrier = Barrier(CLIENTS, action=look)
        host, port = sidecar.bootstrap.split(":")
        # The ports of the only node, at the first worker and at the second one.
        ports = [int(port) + 2 + NODE_PORTS * (number // len(messages)) for number in range(CLIENTS)]
        clients = [SlowConsumer(f"{host}:{one}") for one in ports]
        read_at_once(messages, clients, lambda: barrier.wait(LIMIT_S))
        assert held == [2 * sum(SIZES)]
        assert closed(sidecar)["spilled_total"] == CLIENTS


def test_at_the_end_of_a_drain_a_client_gets_the_rest_of_its_message(
    stored: tuple[Cluster, Messages], tmp_path: Path
) -> None:
    cluster, messages = stored
    with spilling(cluster, tmp_path, {"connections": {"drain_timeout": "12s"}}) as sidecar:

        def drain() -> None:
            sidecar.program.send_signal(signal.SIGTERM)
            eventually(lambda: sidecar.log.read_text(), lambda text: '"draining"' in text, "the drain")
            time.sleep(7.5)  # in its last five seconds connections are ended

        start = messages[-2][0] + 1
        assert read_one(SlowConsumer(sidecar.bootstrap), start, messages[-1], drain)
        sidecar.program.popen.wait(15)
        assert sidecar.program.popen.returncode == 0
        assert ended(sidecar) == {"drain"}


def test_where_files_may_not_be_so_large_messages_wait_for_memory_and_no_connection_ends(
    stored: tuple[Cluster, Messages], tmp_path: Path
) -> None:
    cluster, messages = stored
    command = tmp_path / "limited"
    command.write_text(
        f"#!{sys.executable}\nimport os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_LIMIT}, {FILE_LIMIT}))\n"
        f"os.execv({str(COMMAND)!r}, [{str(COMMAND)!r}, *sys.argv[1:]])\n"
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    with spilling(cluster, tmp_path, command=command) as sidecar:
        read_at_once(messages, [SlowConsumer(sidecar.bootstrap) for _ in range(CLIENTS)], lambda: None)
        found = closed(sidecar)
        assert found['spill_waits_total{reason="failed"}'] > 0
        assert found["spilled_total"] > 0
        lines = list(map(json.loads, sidecar.log.read_text().splitlines()))
        details = {line["detail"] for line in lines if line["message"] == "large messages wait for memory"}
        assert details == {"[Errno 27] File too large"}
        assert {line["level"] for line in lines} <= {"info", "warning"}
        assert ended(sidecar) == {"client_closed"}


def test_when_the_broker_dies_clients_get_the_rest_of_their_messages(
    stored: tuple[Cluster, Messages], tmp_path: Path
) -> None:
    cluster, messages = stored

    def crash() -> None:
        cluster.node(1).kill()
        time.sleep(1)

    with spilling(cluster, tmp_path) as sidecar:
        barrier = Barrier(CLIENTS, action=crash)
        clients = [SlowConsumer(sidecar.bootstrap) for _ in range(CLIENTS)]
        try:
            read_at_once(messages, clients, lambda: barrier.wait(LIMIT_S))
        finally:
            cluster.node(1).start()
        assert ended(sidecar) == {"broker_closed"}
