"""Messages for which the budget has no room are in files without a name: no consumer waits for another one."""

from __future__ import annotations

import os
import re
import socket
import sys
import urllib.request
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from threading import Barrier

import pytest
from confluent_kafka import KafkaError, Message, Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.large_messages.test_budget import peak_mb
from integration.scenarios.target import LIMIT_S, SILENT, create_topic

from kafka_sidecar.codec.envelope import encode_request
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_sidecar.codec.records import batches

pytestmark = [pytest.mark.integration, pytest.mark.matrix]
TOPIC, VERSION = "large-one", 4
SIZES = (20_000_000, 40_000_000, 60_000_000)
CLIENTS = 6
BUDGET_MB = 48
FIRST_BYTES = 1 << 20  # of a response, that each client reads before it waits for the others
CONFIG = """
connections: {{max_buffered: 48MiB, max_frame: 100MiB}}
large_messages:
  cache: 4MiB
  spill: {{folder: {folder}, max_bytes: {limit}}}
  topics: [{{name: "large-*", max_message: 64MiB}}]
"""
LENGTH = Struct(">i")


class SlowConsumer:
    """Reads the beginning of a response, and the rest when it is let go on."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)

    def ask(self, offset: int) -> None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=90_000_000)
        request = FetchRequest(
            replica_id=-1, max_wait_ms=60_000, min_bytes=1, max_bytes=90_000_000,
            topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),),
        )  # fmt: skip
        self._socket.sendall(encode_request(request, VERSION, 1, "slow"))

    def receive(self, count: int) -> bytearray:
        found = bytearray()
        while len(found) < count:
            chunk = self._socket.recv(min(count - len(found), 1 << 18))
            assert chunk, "the sidecar has ended the connection"
            found += chunk
        return found

    def size(self) -> int:
        return int(LENGTH.unpack(self.receive(LENGTH.size))[0])

    def close(self) -> None:
        self._socket.close()


def value_in(frame: bytes | bytearray) -> tuple[int, bytes]:
    """The offset and the value of the only visible record, whose batch's checksum is right."""
    at = LENGTH.size + 4 + 4 + 4 + (2 + len(TOPIC)) + 4 + 4 + 2 + 8 + 8 + 4  # up to the length of the records, v4
    (length,) = LENGTH.unpack_from(frame, at)
    shown = [one for one in batches(bytes(frame[at + 4 : at + 4 + length]), may_end_early=True) if one.header.count]
    (batch,) = [one for one in shown if not one.header.is_control]
    assert batch.crc_is_right()
    (record,) = batch.records()
    return batch.header.base_offset, record.value or b""


def metrics(sidecar: Sidecar) -> dict[str, float]:
    """The counters of large messages."""
    with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r"^kafka_sidecar_large_messages_(spill\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


@contextmanager
def running(tmp_path: Path, limit: str, codec: str = "none") -> Iterator[tuple[Sidecar, list[tuple[int, bytes]], Path]]:
    """A sidecar, the messages of the log by offset, and the folder."""
    folder = tmp_path / "spill"
    folder.mkdir()
    (tmp_path / "sidecar.yaml").write_text(CONFIG.format(folder=folder, limit=limit))
    arguments = ["--config", str(tmp_path / "sidecar.yaml")]
    values = [os.urandom(size) for size in SIZES]
    with (
        Cluster.start(NEWEST) as cluster,
        Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", arguments) as sidecar,
    ):
        create_topic(cluster.direct, TOPIC, 1)
        errors: list[KafkaError | None] = []
        offsets: list[int] = []
        settings = {"bootstrap.servers": sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 90_000_000}
        producer = Producer(settings | {"compression.type": codec})

        def delivered(error: KafkaError | None, message: Message) -> None:
            errors.append(error)
            offsets.append(message.offset() or 0)

        for value in values:
            producer.produce(TOPIC, value, on_delivery=delivered)
            assert producer.flush(3 * LIMIT_S) == 0
        assert errors == [None] * len(SIZES)
        sidecar.restart()  # its peak is that of consumers
        yield sidecar, list(zip(offsets, values, strict=True)), folder


def read_one(sidecar: Sidecar, start: int, want: tuple[int, bytes], barrier: Barrier | None) -> bool:
    """Whether a client gets a message that begins after ``start``, all others having the beginning of theirs."""
    client = SlowConsumer(sidecar.bootstrap)
    try:
        while True:
            client.ask(start)
            size = client.size()
            if size < FIRST_BYTES:  # nothing that is visible, in time
                client.receive(size)
                continue
            frame = client.receive(FIRST_BYTES)
            if barrier is not None:
                barrier.wait(60)
            frame += client.receive(size - FIRST_BYTES)
            offset, value = value_in(LENGTH.pack(size) + bytes(frame))
            assert (offset, zlib.crc32(value)) == (want[0], zlib.crc32(want[1]))
            return True
    finally:
        client.close()


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_all_consumers_are_served_at_the_same_time_with_a_budget_for_less_than_one(tmp_path: Path, codec: str) -> None:
    with running(tmp_path, "1GiB", codec) as (sidecar, messages, folder):
        before, names = peak_mb(sidecar.program.pid), set[str]()
        starts = [0, *(offset + 1 for offset, _ in messages)]
        barrier = Barrier(CLIENTS, action=lambda: names.update(map(str, folder.iterdir())))

        def read(number: int) -> bool:
            at = number % len(messages)
            return read_one(sidecar, starts[at], messages[at], barrier)

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert all(pool.map(read, range(CLIENTS)))
        found = metrics(sidecar)
        assert found["spilled_total"] >= CLIENTS
        assert found["spill_bytes"] == 0
        assert names == set()
        grown = peak_mb(sidecar.program.pid) - before
        print(f"{codec}: {found}, {before:.0f} MB and {grown:.0f} MB more", file=sys.stderr)
        assert grown < BUDGET_MB + 30  # all messages are 240 MB
    assert list(folder.iterdir()) == []


def test_without_room_in_the_folder_consumers_wait_and_get_every_message(tmp_path: Path) -> None:
    with running(tmp_path, "50MiB") as (sidecar, messages, folder):
        starts = [0, *(offset + 1 for offset, _ in messages)]

        def read(number: int) -> bool:
            at = number % len(messages)
            return read_one(sidecar, starts[at], messages[at], None)

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
