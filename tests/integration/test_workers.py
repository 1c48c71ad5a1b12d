"""Two workers, real clients and a real broker: who notices what when a worker, or all of them, end."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from harness import admin_pages, json_lines
from harness.cluster import Cluster
from harness.sidecar import NODE_PORTS, Sidecar
from harness.tool_host import Answer, ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.integration

WORKERS = (1, 2)
PARTITIONS = 2
PER_SECOND = 500  # records of one client
LIMIT_OF_TRAFFIC_S = 60.0
CONFIG = f"""\
workers: 2
nodes: {{ports: {NODE_PORTS}}}
connections: {{drain_timeout: 1s}}
topics:
  - {{name: "checked-*", policy: json}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(NEWEST, 1) as cluster:
        yield cluster


@pytest.fixture
def sidecar(cluster: Cluster, tmp_path: Path) -> Iterator[Sidecar]:
    config = tmp_path / "kafka-sidecar.yaml"
    config.write_text(CONFIG)
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        yield sidecar


def lines(sidecar: Sidecar, message: str) -> list[dict[str, Any]]:
    return json_lines.read(sidecar.log, message)


def pid_of(sidecar: Sidecar, worker: int) -> int:
    return int([line["pid"] for line in lines(sidecar, "worker serving") if line["worker"] == worker][-1])


def metrics(sidecar: Sidecar) -> dict[str, float]:
    """The sum of each name over its labels."""
    families = text_string_to_metric_families(admin_pages.get(f"{sidecar.admin}/metrics").text)
    found: dict[str, float] = {}
    for sample in (sample for family in families for sample in family.samples):
        found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


class Lines(logging.Handler):
    """What librdkafka says of its connections."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


class Application:
    """An idempotent producer of numbered records and the consumer that reads them, in threads."""

    def __init__(self, sidecar: Sidecar, topic: str) -> None:
        self.topic = topic
        self.lines = Lines()
        self.sent = 0
        self.failures: list[KafkaError] = []
        self.seen: set[int] = set()
        self._stop, self._is_sent = threading.Event(), threading.Event()
        logger = logging.getLogger(f"librdkafka.{topic}")
        logger.addHandler(self.lines)
        self._producer = Producer({
            "bootstrap.servers": sidecar.bootstrap, "client.id": topic, "logger": logger,
            "enable.idempotence": True, "linger.ms": 5,
        })  # fmt: skip
        port = self._producer.list_topics(topic, LIMIT_S).brokers[1].port
        first = int(sidecar.bootstrap.rpartition(":")[2]) + 1
        self.worker = 1 + (port - first) // NODE_PORTS
        # Through the same worker: it goes to that worker's port, as to a bootstrap server.
        self._consumer = Consumer({
            "bootstrap.servers": f"127.0.0.1:{port}", "client.id": topic, "logger": logger, "group.id": topic,
            "auto.offset.reset": "earliest", "session.timeout.ms": 10_000,
        })  # fmt: skip
        self._threads = [threading.Thread(target=body, daemon=True) for body in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def read_more(self, count: int) -> None:
        """Returns once so many records have been read that are not sent yet."""
        wanted = self.sent + count
        eventually(lambda: len(self.seen), lambda seen: seen >= wanted, f"{self.topic} is read")

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LIMIT_OF_TRAFFIC_S)
            assert not thread.is_alive()

    def _produce(self) -> None:
        began = time.monotonic()
        while not self._stop.is_set():
            self._producer.produce(
                self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._done
            )
            self.sent += 1
            self._producer.poll(max(0.0, began + self.sent / PER_SECOND - time.monotonic()))
        assert self._producer.flush(LIMIT_S) == 0
        self._is_sent.set()

    def _done(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures.append(error)

    def _consume(self) -> None:
        self._consumer.subscribe([self.topic])
        deadline = time.monotonic() + LIMIT_OF_TRAFFIC_S
        while not (self._is_sent.is_set() and len(self.seen) >= self.sent) and time.monotonic() < deadline:
            self.seen.update(
                int(message.value() or b"") for message in self._consumer.consume(500, 0.1) if not message.error()
            )
        self._consumer.close()


def applications(cluster: Cluster, sidecar: Sidecar, prefix: str, of_each: int = 2) -> list[Application]:
    """At least so many at each worker."""
    found: list[Application] = []
    for number in range(40):
        create_topic(cluster.direct, f"{prefix}-{number}", PARTITIONS)
        found.append(Application(sidecar, f"{prefix}-{number}"))
        if all(sum(one.worker == worker for one in found) >= of_each for worker in WORKERS):
            return found
    raise AssertionError(f"all connections go to one worker: {[one.worker for one in found]}")


def stored(cluster: Cluster, topic: str) -> int:
    """How many records brokers have, by their offsets."""
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": "checks", "logger": SILENT})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, at), LIMIT_S)[1] for at in range(PARTITIONS)]
    consumer.close()
    return sum(ends)


def assert_nothing_is_lost(cluster: Cluster, all_of: list[Application]) -> None:
    for one in all_of:
        assert one.failures == []
        assert stored(cluster, one.topic) == one.sent
        assert one.seen == set(range(one.sent))


def connections_ended(sidecar: Sidecar, after: int) -> set[tuple[str, str]]:
    """Client and cause, by worker 2, after so many such lines."""
    found = lines(sidecar, "connection ended")[after:]
    return {(str(line.get("client_id")), line["cause"]) for line in found if line["worker"] == 2}


def java_traffic(host: ToolHost, sidecar: Sidecar, topic: str, folder: Path) -> list[Future[Answer]]:
    """Kafka's own idempotent producer, and a group of two of its consumers."""
    folder.mkdir()
    limit_s = int(LIMIT_OF_TRAFFIC_S)
    reading = host.start("Traffic", "consume", sidecar.bootstrap, topic, folder, limit_s, limit_s=limit_s + 20)
    sending = host.start("Traffic", "produce", sidecar.bootstrap, topic, folder, 1, PER_SECOND, limit_s=limit_s)
    return [reading, sending]


def test_a_worker_that_is_killed_loses_nothing_and_the_clients_of_the_other_notice_nothing(
    cluster: Cluster, sidecar: Sidecar, java: Mapping[str, ToolHost], tmp_path: Path
) -> None:
    folders = {f"java-{number}": tmp_path / f"java-{number}" for number in range(3)}
    answers: list[Future[Answer]] = []
    for topic, folder in folders.items():
        create_topic(cluster.direct, topic, PARTITIONS)
        answers += java_traffic(java[NEWEST], sidecar, topic, folder)
    apps = applications(cluster, sidecar, "killed")
    for one in apps:
        one.read_more(100)

    said = {one.topic: len(one.lines.said) for one in apps}
    ended = len(lines(sidecar, "connection ended"))
    os.kill(pid_of(sidecar, 1), signal.SIGKILL)
    eventually(lambda: len(lines(sidecar, "worker serving")), lambda count: count == 3, "the worker is there again")
    for one in apps:
        one.read_more(100)
    disconnected = connections_ended(sidecar, ended)
    for one in apps:
        one.end()
    for folder in folders.values():
        (folder / "stop").touch()
    outcomes = [answer.result(LIMIT_OF_TRAFFIC_S + 40) for answer in answers]

    assert_nothing_is_lost(cluster, apps)
    assert [outcome.code for outcome in outcomes] == [0] * len(outcomes), outcomes
    assert [stored(cluster, topic) for topic in folders] == [int((at / "sent").read_text()) for at in folders.values()]
    of_the_other = [one for one in apps if one.worker == 2]
    assert disconnected & {(one.topic, cause) for one in of_the_other for _, cause in disconnected} == set()
    assert [line for one in of_the_other for line in one.lines.said[said[one.topic] :]] == []
    assert any(one.lines.said[said[one.topic] :] for one in apps if one.worker == 1)


def test_the_sidecar_drains_all_workers_and_nothing_is_lost_when_it_is_back(cluster: Cluster, sidecar: Sidecar) -> None:
    apps = applications(cluster, sidecar, "drained", of_each=1)
    for one in apps:
        one.read_more(100)
    assert sidecar.stop() == 0
    assert {line["worker"] for line in lines(sidecar, "draining")} == set(WORKERS)
    sidecar.start_again()
    for one in apps:
        one.read_more(1)
        one.end()
    assert_nothing_is_lost(cluster, apps)


def test_metrics_are_those_of_all_workers(cluster: Cluster, sidecar: Sidecar) -> None:
    apps = applications(cluster, sidecar, "checked")
    for one in apps:
        one.read_more(100)
        one.end()
    assert_nothing_is_lost(cluster, apps)
    found = metrics(sidecar)
    assert found["kafka_sidecar_validated_records_total"] == sum(one.sent for one in apps)
    assert found["kafka_sidecar_workers_serving"] == len(WORKERS)
    assert found["kafka_sidecar_connections_total"] == (
        found["kafka_sidecar_disconnects_total"] + found["kafka_sidecar_active_connections"]
    )
