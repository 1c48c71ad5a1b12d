"""Messages for which the budget has no room are in files without a name: no consumer waits for another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.large_messages.slow_consumers import (
    BUDGET_MB,
    CONFIG,
    FIRST_BYTES,
    SIZES,
    TOPIC,
    SlowConsumer,
    metrics,
    read_one,
    send,
)
from integration.large_messages.test_budget import peak_mib
from integration.scenarios.target import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.matrix]
CLIENTS = 6


@contextmanager
def running(tmp_path: Path, limit: str, codec: str = "none") -> Iterator[tuple[Sidecar, list[tuple[int, bytes]], Path]]:
    """A sidecar, the messages of the log by offset, and the folder."""
    folder = tmp_path / "spill"
    folder.mkdir()
    (tmp_path / "sidecar.yaml").write_text(CONFIG.format(folder=folder, limit=limit))
    arguments = ["--config", str(tmp_path / "sidecar.yaml")]
    with (
        Cluster.start(NEWEST) as cluster,
        Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", arguments) as sidecar,
    ):
        create_topic(cluster.direct, TOPIC, 1)
        messages = send(sidecar, codec)
        sidecar.restart()  # its peak is that of consumers
        yield sidecar, messages, folder


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_all_consumers_are_served_at_the_same_time_with_a_budget_for_less_than_one(tmp_path: Path, codec: str) -> None:
    with running(tmp_path, "1GiB", codec) as (sidecar, messages, folder):
        before, names = peak_mib(sidecar.program.pid), set[str]()
        starts = [0, *(offset + 1 for offset, _ in messages)]
        barrier = Barrier(CLIENTS, action=lambda: names.update(map(str, folder.iterdir())))

        def read(number: int) -> bool:
            at = number % len(messages)
            return read_one(SlowConsumer(sidecar.bootstrap), starts[at], messages[at], lambda: barrier.wait(60))

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert all(pool.map(read, range(CLIENTS)))
        found = metrics(sidecar)
        assert found["spilled_total"] >= CLIENTS
        assert found["spill_bytes"] == 0
        assert names == set()
        grown = peak_mib(sidecar.program.pid) - before
        print(f"{codec}: {found}, {before:.0f} MB and {grown:.0f} MB more", file=sys.stderr)
        assert grown < BUDGET_MB + 30  # all messages are 240 MB
    assert list(folder.iterdir()) == []


def test_without_room_in_the_folder_consumers_wait_and_get_every_message(tmp_path: Path) -> None:
    with running(tmp_path, "50MiB") as (sidecar, messages, folder):
        starts = [0, *(offset + 1 for offset, _ in messages)]

        def read(number: int) -> bool:
            at = number % len(messages)
            return read_one(SlowConsumer(sidecar.bootstrap), starts[at], messages[at], lambda: None)

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert all(pool.map(read, range(CLIENTS)))
        found = metrics(sidecar)
        assert found['spill_waits_total{reason="max_bytes"}'] > 0
        assert found["spill_bytes"] == 0
        assert "error" not in sidecar.log.read_text()
    assert list(folder.iterdir()) == []


def test_a_killed_sidecar_leaves_nothing_in_the_folder(tmp_path: Path) -> None:
    with running(tmp_path, "1GiB") as (sidecar, messages, folder):
        client = SlowConsumer(sidecar.bootstrap)
        while True:
            client.ask(messages[0][0] + 1)
            if (size := client.size()) >= FIRST_BYTES:
                break
            client.receive(size)
        assert metrics(sidecar)["spill_bytes"] == SIZES[1]
        free = os.statvfs(folder).f_bavail
        sidecar.program.kill()
        client.close()
        assert list(folder.iterdir()) == []
        assert os.statvfs(folder).f_bavail > free
