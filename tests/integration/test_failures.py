"""Clients during crashes of brokers and of the sidecar: no record is lost, none is duplicated."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.partitions import leaders
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, create_topic, eventually

pytestmark = pytest.mark.integration

LIMIT_OF_TRAFFIC_S = 160
STOPPED_S = 20


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """Three nodes that no other test uses."""
    with Cluster.start(NEWEST, nodes=3) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class Pace:
    """Of each producer: the fewest records that it sends, and how fast."""

    records: int
    per_second: int

    def __str__(self) -> str:
        return f"{self.records}"


class LibrdkafkaTraffic:
    """An idempotent producer of numbered records and a group of two consumers, in threads."""

    def __init__(self, bootstrap: str, topic: str, pace: Pace) -> None:
        self._topic = topic
        self._pace = pace
        self._common = {"bootstrap.servers": bootstrap, "logger": SILENT, "topic.metadata.refresh.interval.ms": 3000}
        self._deadline = time.monotonic() + LIMIT_OF_TRAFFIC_S
        self._stop = threading.Event()
        self.sent = 0  # of which there are no more; 0: not known yet
        self.failures: list[KafkaError] = []
        self.seen: Counter[bytes] = Counter()
        bodies = [self._produce, self._consume, self._consume]
        self._threads = [threading.Thread(target=body, daemon=True) for body in bodies]
        for thread in self._threads:
            thread.start()

    @property
    def is_sending(self) -> bool:
        return self._threads[0].is_alive()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LIMIT_OF_TRAFFIC_S + 30)
            assert not thread.is_alive()

    def _produce(self) -> None:
        producer = Producer({**self._common, "enable.idempotence": True, "linger.ms": 5, "request.timeout.ms": 10_000})
        start = time.monotonic()
        number = 0
        while number < self._pace.records or not self._stop.is_set():
            if number % 100 == 0:
                producer.poll(max(0.0, start + number / self._pace.per_second - time.monotonic()))
            value = b"%d" % number
            while not self._accepts(producer, value):
                producer.poll(0.1)
            number += 1
        self.sent = number
        producer.flush(LIMIT_OF_TRAFFIC_S)

    def _accepts(self, producer: Producer, value: bytes) -> bool:
        try:
            producer.produce(self._topic, value, value, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures.append(error)

    def _consume(self) -> None:
        consumer = Consumer({
            **self._common, "group.id": f"{self._topic}-group", "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500, "session.timeout.ms": 10_000,
        })  # fmt: skip
        consumer.subscribe([self._topic])
        while not 0 < self.sent <= len(self.seen) and time.monotonic() < self._deadline:
            for message in consumer.consume(5000, timeout=0.2):
                if not message.error():
                    self.seen[message.value() or b""] += 1
        consumer.close()


def _log(cluster: Cluster, topic: str) -> Counter[int]:
    """How often each number stands in the log, read from the brokers directly."""
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": "checks", "logger": SILENT})
    partitions = [TopicPartition(topic, partition, 0) for partition in range(3)]
    ends = [consumer.get_watermark_offsets(partition, LIMIT_S)[1] for partition in partitions]
    consumer.assign(partitions)
    found: Counter[int] = Counter()

    def read() -> int:
        found.update(int(message.value() or b"") for message in consumer.consume(20_000, timeout=0.5))
        return found.total()

    eventually(read, lambda total: total >= sum(ends), f"{topic} is read", 60)
    consumer.close()
    return found


def _crash_leader(cluster: Cluster, topic: str) -> None:
    node = cluster.node(leaders(cluster, topic)[0])
    node.kill()
    eventually(lambda: leaders(cluster, topic)[0], lambda leader: leader not in (node.id, -1), "another leader")
    node.start()


def _stop_leader(cluster: Cluster, topic: str) -> None:
    node = cluster.node(leaders(cluster, topic)[1])
    node.stop()
    time.sleep(STOPPED_S)
    node.cont()


@pytest.mark.parametrize(
    "pace", [Pace(5_000, 120), pytest.param(Pace(200_000, 4_500), marks=pytest.mark.slow)], ids=str
)
def test_nothing_is_lost_or_doubled_when_brokers_and_the_sidecar_fail(
    fragile: Cluster, java: Mapping[str, ToolHost], tmp_path: Path, pace: Pace
) -> None:
    topics = (f"java-{pace}", f"librdkafka-{pace}")
    for topic in topics:
        create_topic(fragile.direct, topic, 3)
    with Sidecar.start(fragile.bootstrap, tmp_path / "sidecar.log") as sidecar:
        host, limit_s = java[NEWEST], LIMIT_OF_TRAFFIC_S
        reading = host.start(
            "Traffic", "consume", sidecar.bootstrap, topics[0], tmp_path, limit_s, limit_s=limit_s + 20
        )
        how = (tmp_path, pace.records, pace.per_second)
        sending = host.start("Traffic", "produce", sidecar.bootstrap, topics[0], *how, limit_s=limit_s)
        librdkafka = LibrdkafkaTraffic(sidecar.bootstrap, topics[1], pace)

        time.sleep(4)
        _crash_leader(fragile, topics[0])
        sidecar.restart()
        time.sleep(2)
        _stop_leader(fragile, topics[1])
        assert not sending.done()
        assert librdkafka.is_sending

        (tmp_path / "stop").touch()
        sent, read = sending.result(limit_s + 40), reading.result(limit_s + 40)
        librdkafka.end()

    numbers = dict(zip(topics, (int((tmp_path / "sent").read_text()), librdkafka.sent), strict=True))
    assert min(numbers.values()) >= pace.records
    assert (sent.code, sent.out) == (0, f"acked {numbers[topics[0]]}\n"), sent
    assert read.code == 0, read
    assert librdkafka.failures == []
    assert len(librdkafka.seen) == librdkafka.sent
    for topic, count in numbers.items():
        counts = _log(fragile, topic)
        assert set(counts) == set(range(count))
        assert counts.total() == count


def test_a_sidecar_starts_with_the_first_bootstrap_server_down(fragile: Cluster, tmp_path: Path) -> None:
    fragile.node(1).kill()
    admin = admin_client(fragile.direct)
    eventually(lambda: len(admin.list_topics(timeout=LIMIT_S).brokers), lambda count: count == 2, "the loss is noticed")
    try:
        with Sidecar.start(fragile.bootstrap, tmp_path / "sidecar.log") as sidecar:
            create_topic(sidecar.bootstrap, "with-one-down", 1, {"min.insync.replicas": "1"})
    finally:
        fragile.node(1).start()


def test_a_sidecar_outlives_the_time_in_which_no_broker_is_there(tmp_path: Path) -> None:
    with Cluster.start(NEWEST) as cluster:
        cluster.node(1).kill()
        with Sidecar(cluster.bootstrap, tmp_path / "sidecar.log") as sidecar:
            admin = admin_client(sidecar.bootstrap)
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=2)
            assert sidecar.program.is_running
            assert not sidecar.is_ready()

            cluster.node(1).start()

            sidecar.wait()
            create_topic(sidecar.bootstrap, "after-all", 1)
            assert "after-all" in admin.list_topics(timeout=LIMIT_S).topics
