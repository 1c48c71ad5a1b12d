"""A budget that has no room for two large messages: the answers of many consumers wait, and each gets everything."""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic

pytestmark = [pytest.mark.integration, pytest.mark.matrix]
SIZE, COUNT, CLIENTS = 9_000_000, 4, 8
CONFIG = """
connections: {max_buffered: 16MiB, max_frame: 12MiB}
large_messages: {cache: 1MiB, topics: [{name: "large-*", max_message: 10MiB}]}
"""


def read_all(bootstrap: str, number: int) -> list[int]:
    """The checksums of what one consumer reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"g{number}", "auto.offset.reset": "earliest", "logger": SILENT,
            "fetch.max.bytes": 60_000_000, "max.partition.fetch.bytes": 20_000_000,
            "receive.message.max.bytes": 90_000_000, "queued.max.messages.kbytes": 20_000,
        }
    )  # fmt: skip
    consumer.subscribe(["large-one"])
    found: list[int] = []
    try:
        while len(found) < COUNT:
            message = consumer.poll(60)
            assert message is not None, f"consumer {number} has read {len(found)} messages, and no more in 60 s"
            if message.error() is None:
                found.append(zlib.crc32(message.value() or b""))
    finally:
        consumer.close()
    return found


def peak_mb(pid: int) -> float:
    """Resident memory at most, so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def test_eight_consumers_get_every_message_through_a_budget_for_less_than_two(tmp_path: Path) -> None:
    (tmp_path / "sidecar.yaml").write_text(CONFIG)
    values = [os.urandom(SIZE) for _ in range(COUNT)]
    arguments = ["--config", str(tmp_path / "sidecar.yaml")]
    with (
        Cluster.start(NEWEST) as cluster,
        Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", arguments) as sidecar,
    ):
        create_topic(cluster.direct, "large-one", 1)
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 20_000_000})
        for value in values:
            producer.produce("large-one", value, on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(2 * LIMIT_S) == 0
        assert errors == [None] * COUNT
        with ThreadPoolExecutor(CLIENTS) as pool:
            read = list(pool.map(lambda number: read_all(sidecar.bootstrap, number), range(CLIENTS)))
        assert read == [[zlib.crc32(value) for value in values]] * CLIENTS
        assert peak_mb(sidecar.program.pid) < 300
