"""A budget without room for the messages of all consumers: they wait, and each consumer gets all."""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from harness.sidecar import Sidecar
from integration.lent import plain_cluster
from integration.scenarios.target import LIMIT_S, SILENT, create_topic

pytestmark = [pytest.mark.integration, pytest.mark.matrix]
COUNT, CLIENTS = 4, 8
WAITING = """
connections: {max_buffered: 16MiB, max_frame: 12MiB}
large_messages: {cache: 1MiB, topics: [{name: "large-*", max_message: 10MiB}]}
"""


def read_all(bootstrap: str, number: int, size: int) -> list[int]:
    """The checksums of what one consumer reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"g{number}", "auto.offset.reset": "earliest", "logger": SILENT,
            "fetch.max.bytes": 3 * size, "max.partition.fetch.bytes": 2 * size,
            "receive.message.max.bytes": 6 * size, "queued.max.messages.kbytes": size // 500,
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


def peak_mib(pid: int) -> float:
    """Resident memory at most so far, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize(
    ("size", "config", "limit_mib"),
    [
        pytest.param(9_000_000, WAITING, 300, id="9 MB, budget of 16 MiB"),
    ],
)
def test_eight_consumers_get_every_message_and_memory_is_bounded(
    size: int, config: str, limit_mib: float, tmp_path: Path
) -> None:
    (tmp_path / "sidecar.yaml").write_text(config)
    values = [os.urandom(size) for _ in range(COUNT)]
    arguments = ["--config", str(tmp_path / "sidecar.yaml")]
    with (
        plain_cluster() as cluster,
        Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", arguments) as sidecar,
    ):
        create_topic(cluster.direct, "large-one", 1)
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 2 * size})
        for value in values:
            producer.produce("large-one", value, on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(2 * LIMIT_S) == 0
        assert errors == [None] * COUNT
        with ThreadPoolExecutor(CLIENTS) as pool:
            read = list(pool.map(lambda number: read_all(sidecar.bootstrap, number, size), range(CLIENTS)))
        assert read == [[zlib.crc32(value) for value in values]] * CLIENTS
        assert peak_mib(sidecar.program.pid) < limit_mib
