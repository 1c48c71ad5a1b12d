"""Brokers crash, freeze and come back, the sidecar itself is killed: no record is lost, none is stored twice."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import SILENT, create_topic

pytestmark = pytest.mark.integration

RECORDS = 200_000
PER_SECOND = 6_000  # so that they are still being sent through all that happens
PARTITIONS = 3
FROZEN_S = 20
LIMIT_S = 120


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    with Cluster.start(NEWEST, 3) as cluster:
        yield cluster


@pytest.fixture
def sidecar(three_brokers: Cluster, tmp_path: Path) -> Iterator[Sidecar]:
    with Sidecar.start(three_brokers.bootstrap, tmp_path / "sidecar.log") as sidecar:
        yield sidecar


def send_with_librdkafka(bootstrap: str, topic: str) -> None:
    """Sends the values 0 to RECORDS - 1, idempotently, at PER_SECOND; raises if one is not acknowledged."""
    refused: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "logger": SILENT, "enable.idempotence": True, "linger.ms": 5,
            "request.timeout.ms": 8000, "delivery.timeout.ms": LIMIT_S * 1000, "queue.buffering.max.messages": RECORDS,
        }
    )  # fmt: skip
    begin = time.monotonic()
    for number in range(RECORDS):
        while number > (time.monotonic() - begin) * PER_SECOND:
            producer.poll(0.005)
        producer.produce(topic, str(number), on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(LIMIT_S) == 0, "some records were never acknowledged"
    assert refused == []


class Group(threading.Thread):
    """A consumer group of one, which commits as it goes, until it has seen every number of its topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"group of {topic}", daemon=True)
        self.seen: set[int] = set()
        self._topic = topic
        self._enough = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "logger": SILENT, "group.id": f"readers of {topic}",
                "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500, "socket.timeout.ms": 8000,
            }
        )  # fmt: skip

    def run(self) -> None:
        self._consumer.subscribe([self._topic])
        while len(self.seen) < RECORDS and not self._enough.is_set():
            for message in self._consumer.consume(5000, 0.5):
                if message.error() is None:
                    self.seen.add(int(message.value() or b"-1"))
        self._consumer.close()

    def finish(self) -> None:
        self.join(LIMIT_S)
        self._enough.set()
        self.join(20)


def stored(bootstrap: str, topic: str) -> Counter[int]:
    """How often each number stands in the log: read without a sidecar, without a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "logger": SILENT, "group.id": "judge"})
    partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    missing = sum(consumer.get_watermark_offsets(partition, 20)[1] for partition in partitions)
    consumer.assign(partitions)
    numbers: Counter[int] = Counter()
    deadline = time.monotonic() + LIMIT_S
    while missing > 0 and time.monotonic() < deadline:
        messages = [message for message in consumer.consume(10_000, 1) if message.error() is None]
        numbers.update(int(message.value() or b"-1") for message in messages)
        missing -= len(messages)
    consumer.close()
    return numbers


def leader_of(bootstrap: str, topic: str) -> int:
    return int(Producer({"bootstrap.servers": bootstrap}).list_topics(topic, 20).topics[topic].partitions[0].leader)


def trouble(cluster: Cluster, sidecar: Sidecar, topic: str) -> None:
    """A leader is killed and comes back, the sidecar is killed and comes back, a broker is frozen for a while."""
    time.sleep(3)
    leader = leader_of(cluster.direct, topic)
    cluster.node(leader).kill()
    time.sleep(5)
    cluster.node(leader).start()
    time.sleep(2)
    sidecar.restart()
    time.sleep(2)
    frozen = cluster.node(leader % len(cluster.nodes) + 1)
    frozen.stop()
    time.sleep(FROZEN_S)
    frozen.cont()


def test_an_idempotent_producer_and_a_group_come_through_crashes_with_every_record_once(
    three_brokers: Cluster, sidecar: Sidecar, java: Mapping[str, ToolHost]
) -> None:
    topics = {name: f"numbers-from-{name}" for name in ("java", "librdkafka")}
    for topic in topics.values():
        create_topic(three_brokers.direct, topic, PARTITIONS, {"min.insync.replicas": "2"})
    groups = {name: Group(sidecar.bootstrap, topic) for name, topic in topics.items()}
    for group in groups.values():
        group.start()
    with ThreadPoolExecutor(2) as pool:
        from_java = java[NEWEST].start(
            "NumberedProducer", sidecar.bootstrap, topics["java"], RECORDS, PER_SECOND, limit_s=LIMIT_S
        )
        from_librdkafka = pool.submit(send_with_librdkafka, sidecar.bootstrap, topics["librdkafka"])
        pool.submit(trouble, three_brokers, sidecar, topics["java"]).result()
        from_librdkafka.result(LIMIT_S)
    sent = from_java.result(LIMIT_S + 20)
    assert sent.code == 0, sent.err[-2000:]
    for name, group in groups.items():
        group.finish()
        assert len(group.seen) == RECORDS, f"the group of {name} missed {RECORDS - len(group.seen)}"
    for topic in topics.values():
        assert stored(three_brokers.direct, topic) == Counter(range(RECORDS))
    assert three_brokers.leaks() == []


def test_a_sidecar_that_starts_before_its_broker_serves_once_the_broker_is_up(tmp_path: Path) -> None:
    with Cluster.start(NEWEST, 1) as cluster:
        cluster.node(1).kill()
        with Sidecar(cluster.bootstrap, tmp_path / "sidecar.log") as sidecar:
            time.sleep(2)
            assert sidecar.program.is_running
            assert not sidecar.is_ready()
            host, port = sidecar.bootstrap.split(":")
            with socket.create_connection((host, int(port)), 5) as client:
                assert client.recv(1) == b"", "a client is told at once that there is nobody behind"
            cluster.node(1).start()
            sidecar.wait()
            create_topic(sidecar.bootstrap, "after", 1)
        assert "a broker cannot be reached" in sidecar.log.read_text()
