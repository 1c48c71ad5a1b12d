"""Guards, habits, rate limits and rules for consumers are changed with SIGHUP: connections stay, and requests that come
then are held to the new ones."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from harness import admin_pages, json_lines
from harness.cluster import Cluster
from harness.sidecar import NODE_PORTS, Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, create_topic, eventually

pytestmark = pytest.mark.integration


@dataclass
class Site:
    cluster: Cluster
    sidecar: Sidecar
    file: Path

    def apply(self, **settings: Any) -> None:
        before = self._applied()
        self.file.write_text(yaml.safe_dump({"nodes": {"ports": NODE_PORTS}, **settings}))
        self.sidecar.program.send_signal(signal.SIGHUP)
        eventually(self._applied, lambda found: found > before, "the configuration is applied")

    def _applied(self) -> int:
        return len(json_lines.read(self.sidecar.log, "configuration applied"))

    def connections(self) -> set[int]:
        found = json.loads(admin_pages.get(f"{self.sidecar.admin}/connections").text)
        return {one["session"] for one in found["connections"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    work = tmp_path_factory.mktemp("reloads")
    file = work / "sidecar.yaml"
    file.write_text(yaml.safe_dump({"nodes": {"ports": NODE_PORTS}}))
    with (
        Cluster.start(NEWEST, 1) as cluster,
        Sidecar.start(cluster.bootstrap, work / "sidecar.log", ["--config", str(file)]) as sidecar,
    ):
        yield Site(cluster, sidecar, file)


class Sender:
    """A producer with one connection for its records, which says of each what became of it and how long it took."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "logger": SILENT, "linger.ms": 0, **settings})

    def send(self, topic: str, value: bytes = b"x") -> str:
        found: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            found.append(error)

        self._producer.produce(topic, value, on_delivery=delivered)
        assert self._producer.flush(LIMIT_S) == 0
        return found[0].name() if found[0] else ""


def test_guards(site: Site) -> None:
    admin = admin_client(site.sidecar.bootstrap)

    def created(name: str, partitions: int) -> str:
        try:
            admin.create_topics([NewTopic(name, partitions, 1)])[name].result(LIMIT_S)
        except KafkaException as error:
            return str(error.args[0].name())
        return ""

    assert created("before", 9) == ""
    known = site.connections()
    site.apply(topic_guards=[{"partitions": {"max": 6}}])
    assert created("guarded", 9) == "POLICY_VIOLATION"
    assert created("guarded", 6) == ""
    site.apply(topic_guards=[{"partitions": {"max": 6}, "mode": "shadow"}])
    assert created("shadow", 9) == ""
    site.apply(topic_guards=[{"naming": "[a-z]+"}])
    assert created("A", 1) == "POLICY_VIOLATION"
    site.apply()
    assert created("after", 9) == ""
    assert site.connections() & known


def test_habits(site: Site) -> None:
    create_topic(site.cluster.direct, "habits", 1)
    one, every = (Sender(site.sidecar.bootstrap, acks=acks) for acks in (1, -1))
    assert (one.send("habits"), every.send("habits")) == ("", "")
    known = site.connections()
    site.apply(producers=[{"topics": ["habits"], "acks": "all"}])
    assert (one.send("habits"), every.send("habits")) == ("POLICY_VIOLATION", "")
    site.apply(producers=[{"topics": ["habits"], "acks": "all", "mode": "shadow"}])
    assert (one.send("habits"), every.send("habits")) == ("", "")
    site.apply(producers=[{"topics": ["habits"], "idempotence": "required"}])
    assert (one.send("habits"), every.send("habits")) == ("POLICY_VIOLATION", "POLICY_VIOLATION")
    site.apply()
    assert (one.send("habits"), every.send("habits")) == ("", "")
    assert known <= site.connections()


def test_rate_limits(site: Site) -> None:
    create_topic(site.cluster.direct, "rated", 1)
    sender = Sender(site.sidecar.bootstrap)

    def took_s(number: int = 4) -> float:
        began = time.monotonic()
        assert [sender.send("rated") for _ in range(number)] == [""] * number
        return time.monotonic() - began

    took_s()
    known = site.connections()
    site.apply(rate_limits=[{"name": "r", "topics": ["rated"], "produce_records": 1}])
    assert took_s() >= 1.9  # of four, one is the burst, and what is owed for the last is waited for by the next
    site.apply(rate_limits=[{"name": "r", "topics": ["rated"], "produce_records": 1, "action": "reject"}])
    assert "POLICY_VIOLATION" in [sender.send("rated") for _ in range(4)]
    site.apply(rate_limits=[{"name": "r", "topics": ["others"], "produce_records": 1}])
    sender.send("rated")
    assert [sender.send("rated") for _ in range(4)] == [""] * 4
    site.apply()
    assert known <= site.connections()


def test_rules_for_consumers(site: Site) -> None:
    create_topic(site.cluster.direct, "consumed", 1)
    direct = Sender(site.cluster.direct)
    consumer = Consumer({"bootstrap.servers": site.sidecar.bootstrap, "group.id": "r", "logger": SILENT})

    def get(*values: bytes) -> list[tuple[bytes | None, bool]]:
        """What a consumer gets of records that are written now, and whether it is marked."""
        _, high = consumer.get_watermark_offsets(TopicPartition("consumed", 0), LIMIT_S)
        consumer.assign([TopicPartition("consumed", 0, high)])
        for value in values:
            direct.send("consumed", value)
        found: list[tuple[bytes | None, bool]] = []
        while not found or found[-1][0] != values[-1]:
            message = consumer.poll(LIMIT_S)
            assert message is not None
            assert message.error() is None
            found.append((message.value(), bool(message.headers())))
        return found

    entry = {"name": "consumed", "policy": "json"}
    assert get(b"bad", b"1") == [(b"bad", False), (b"1", False)]
    site.apply(topics=[{**entry, "consume": "hide"}])
    assert get(b"bad", b"1") == [(b"1", False)]
    site.apply(topics=[{**entry, "consume": "mark"}])
    assert get(b"bad", b"1") == [(b"bad", True), (b"1", False)]
    site.apply(topics=[{**entry, "consume": "hide", "mode": "shadow"}])
    assert get(b"bad", b"1") == [(b"bad", False), (b"1", False)]
    site.apply(topics=[entry])
    assert get(b"bad", b"1") == [(b"bad", False), (b"1", False)]
    consumer.close()
