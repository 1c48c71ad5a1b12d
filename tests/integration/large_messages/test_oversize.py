"""Values of 10, 60 and 110 MB, read by four clients at their defaults, or with the one setting that limits them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from harness.jvm import java as java_command
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.front import Front
from integration.large_messages.other_consumers import TOOLS, read
from integration.large_messages.test_other_clients import param
from integration.lent import plain_cluster
from integration.scenarios.target import SILENT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaPythonPartition

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

RULES = """
connections: {max_frame: 130MiB, max_buffered: 512MiB}
large_messages: {topics: [{name: "huge-*", max_message: 120MiB, above_client_limits: true}]}
"""
SMALL_BUDGET = """
connections: {max_frame: 66MiB, max_buffered: 128MiB}
large_messages: {topics: [{name: "huge-*", max_message: 64MiB}]}
"""
TWO = ("librdkafka", "aiokafka")
PEAK_BYTES = 300 << 20  # the budget, the cache, and the program itself
MB = 1_000_000
SIZES_MB = (10, 60, 110)
LONGEST_S, SHORTEST_S = 120.0, 15.0  # that a client may need, and that one which cannot read it is waited for
RAISED = 150 * MB
Sum = tuple[int, int]  # the length of a value and its CRC-32
Read = Callable[
    [str, str, bool, float], Sum | None
]  # with bootstrap and topic; whether its limit is raised; in seconds


def sum_of(value: bytes) -> Sum:
    return len(value), crc32(value)


def java(bootstrap: str, topic: str, is_raised: bool, limit_s: float) -> Sum | None:
    """Kafka's console consumer, which ends a value with a line feed."""
    flags = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "0"]
    words = java_command(
        NEWEST, "org.apache.kafka.tools.consumer.ConsoleConsumer", *flags, "--max-messages", "1", "--timeout-ms",
        str(int(limit_s * 1000)),
    )  # fmt: skip
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=2 * limit_s)
    return sum_of(ended.stdout[:-1]) if ended.stdout else None


def librdkafka(bootstrap: str, topic: str, is_raised: bool, limit_s: float) -> Sum | None:
    settings: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap, "group.id": topic}
    if is_raised:
        settings["receive.message.max.bytes"] = RAISED
    consumer = Consumer(settings, logger=SILENT)
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + limit_s
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                return sum_of(message.value() or b"")
        return None
    finally:
        consumer.close()


def aiokafka(bootstrap: str, topic: str, is_raised: bool, limit_s: float) -> Sum | None:
    async def run() -> Sum | None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            place = AiokafkaPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            for (record,) in (await consumer.getmany(timeout_ms=int(limit_s * 1000), max_records=1)).values():
                return sum_of(record.value or b"")
            return None
        finally:
            await consumer.stop()

    return asyncio.run(run())


def kafka_python(bootstrap: str, topic: str, is_raised: bool, limit_s: float) -> Sum | None:
    more = {"receive_message_max_bytes": RAISED} if is_raised else {}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), **more)
    place = KafkaPythonPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    deadline = time.monotonic() + limit_s
    try:
        while time.monotonic() < deadline:
            for (record,) in consumer.poll(timeout_ms=1000, max_records=1).values():
                return sum_of(record.value)
        return None
    finally:
        consumer.close()


CLIENTS: Mapping[str, Read] = {
    "java": java, "librdkafka": librdkafka, "aiokafka": aiokafka, "kafka-python": kafka_python,
}  # fmt: skip
LIMITED = ("librdkafka", "kafka-python")  # to 100 MB for a response
LIMITED_IN_GO = ("franz-go", "sarama")  # to 100 MiB: by BrokerMaxReadBytes, and by MaxResponseSize


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Front, Mapping[int, Sum]]]:
    """A topic for each size, and what it has."""
    folder = tmp_path_factory.mktemp("huge")
    (folder / "sidecar.yaml").write_text(RULES)
    flags = ["--config", str(folder / "sidecar.yaml")]
    with (
        plain_cluster() as cluster,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", flags) as sidecar,
    ):
        front = Front(cluster, sidecar)
        sums = {size: stored(front, size) for size in SIZES_MB}
        yield front, sums
        assert cluster.leaks() == []


def stored(front: Front, size_mb: int) -> Sum:
    topic, value, errors = front.topic(f"huge-{size_mb}"), os.urandom(size_mb * MB), list[object]()
    settings: dict[str, str | int] = {"bootstrap.servers": front.sidecar.bootstrap, "message.max.bytes": RAISED}
    producer = Producer(settings, logger=SILENT)
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LONGEST_S) == 0
    assert errors == [None]
    return sum_of(value)


@pytest.mark.parametrize("size_mb", SIZES_MB)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_it_at_its_defaults_or_once_its_own_limit_is_raised(
    huge: tuple[Front, Mapping[int, Sum]], client: str, size_mb: int
) -> None:
    front, sums = huge
    read, place = CLIENTS[client], (front.sidecar.bootstrap, f"huge-{size_mb}")
    if client in LIMITED and size_mb > 100:
        assert read(*place, False, SHORTEST_S) is None
        assert read(*place, True, LONGEST_S) == sums[size_mb]
    else:
        assert read(*place, False, LONGEST_S) == sums[size_mb]


@pytest.mark.parametrize("size_mb", SIZES_MB)
@pytest.mark.parametrize("client", [param(client) for client in TOOLS])
def test_so_do_clients_in_go_and_javascript(huge: tuple[Front, Mapping[int, Sum]], client: str, size_mb: int) -> None:
    front, sums = huge
    topic, fetch_bytes = f"huge-{size_mb}", 1 << 20
    if client in LIMITED_IN_GO and size_mb > 100:
        with pytest.raises(subprocess.CalledProcessError):
            read(client, front.sidecar.bootstrap, topic, 1, fetch_bytes=fetch_bytes)
        fetch_bytes = RAISED // 2
    found = read(client, front.sidecar.bootstrap, topic, 1, fetch_bytes=fetch_bytes)
    assert [(one.size, one.crc) for one in found] == [sums[size_mb]]


def test_two_clients_at_once_read_60_mb_through_a_budget_of_128_mib(
    huge: tuple[Front, Mapping[int, Sum]], tmp_path: Path
) -> None:
    front, sums = huge
    (tmp_path / "sidecar.yaml").write_text(SMALL_BUDGET)
    flags = ["--config", str(tmp_path / "sidecar.yaml")]
    with (
        Sidecar.start(front.cluster.bootstrap, tmp_path / "sidecar.log", flags) as sidecar,
        ThreadPoolExecutor() as pool,
    ):
        reads = [pool.submit(CLIENTS[name], sidecar.bootstrap, "huge-60", False, LONGEST_S) for name in TWO]
        assert [one.result() for one in reads] == [sums[60]] * len(TWO)
        peak = Front(front.cluster, sidecar).peak()

        assert peak < PEAK_BYTES
