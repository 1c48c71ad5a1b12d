"""Brokers that are down, and a sidecar that is killed: what is lost is counted, and nothing is doubled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import NewTopic
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from integration.dead_letters.lettered import Lettered, placed, read_letter
from integration.front import logged
from integration.scenarios.target import SILENT, eventually

pytestmark = pytest.mark.integration

RULES = """
topics:
  - {{name: "*.dlq"}}
  - {{name: "orders", policy: json, dead_letters: "{{topic}}.dlq"}}
dead_letters: {{spool_folder: {folder}/letters}}
"""
LIMIT_S = 60.0
LETTERS = "orders.dlq"


@pytest.fixture
def brokers(two: Cluster, tmp_path: Path) -> Iterator[Lettered]:
    """The topic's leader is one broker, that of its dead letters the other."""
    config = tmp_path / "sidecar.yaml"
    config.write_text(RULES.format(folder=tmp_path))
    first, last = sorted(two.nodes)
    new = [NewTopic("orders", 1, replica_assignment=[[first]]), NewTopic(LETTERS, 1, replica_assignment=[[last]])]
    with (
        placed(two, new),
        Sidecar.start(two.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        yield Lettered(two, sidecar)


class Shop:
    """An application whose records are all rejected. Each has a number of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "linger.ms": 2, "enable.idempotence": False, "batch.num.messages": 10,
            "max.in.flight": 1, "message.timeout.ms": 20_000,
        }, logger=SILENT)  # fmt: skip
        self.rejected: list[int] = []  # that the answer says are
        self._number = 0

    def send(self, records: int) -> None:
        for _ in range(records):
            number = self._number
            self._number += 1

            def delivered(error: object, _: Message, number: int = number) -> None:
                if error is not None and "INVALID_RECORD" in str(error):
                    self.rejected.append(number)

            self._producer.produce("orders", b"%d no JSON" % number, on_delivery=delivered)
            self._producer.poll(0)
        self._producer.flush(30)


def numbers(lettered: Lettered) -> Counter[int]:
    """The records in the dead letter topic, each with how often it is there."""
    letters = [read_letter(one) for one in logged(lettered.cluster.direct, LETTERS)]
    return Counter(int((letter.value or b"").split()[0]) for letter in letters)


def metric_of(lettered: Lettered, name: str) -> float:
    return lettered.metric(f"dead_letters_{name}")


@pytest.mark.parametrize("down_s", [8.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_letters_wait_for_a_broker_that_is_down_and_arrive_once(brokers: Lettered, down_s: float) -> None:
    shop, node = Shop(brokers.sidecar.bootstrap), brokers.cluster.nodes[max(brokers.cluster.nodes)]
    shop.send(200)
    eventually(lambda: metric_of(brokers, "sent_total"), lambda sent: sent == 200, "letters sent", LIMIT_S)
    node.kill()
    end = time.monotonic() + down_s
    while time.monotonic() < end:
        shop.send(100)
        time.sleep(0.2)
    assert metric_of(brokers, "spooled_bytes") > 0
    assert metric_of(brokers, "oldest_seconds") > down_s - 5
    node.start()
    shop.send(100)
    eventually(lambda: metric_of(brokers, "waiting"), lambda left: left == 0, "no letter waits", LIMIT_S)
    assert numbers(brokers) == Counter(shop.rejected)
    assert len(shop.rejected) > 1000
    assert metric_of(brokers, "dropped_total") == 0


def test_a_killed_sidecar_sends_what_is_on_disk_once_and_counts_what_it_has_lost(brokers: Lettered) -> None:
    shop, node = Shop(brokers.sidecar.bootstrap), brokers.cluster.nodes[max(brokers.cluster.nodes)]
    shop.send(200)
    eventually(lambda: metric_of(brokers, "sent_total"), lambda sent: sent == 200, "letters sent", LIMIT_S)
    node.kill()
    for _ in range(20):
        shop.send(100)
        time.sleep(0.1)
    brokers.sidecar.program.kill()
    brokers.sidecar.start_again()
    again = Shop(brokers.sidecar.bootstrap)
    lost = metric_of(brokers, 'dropped_total{reason="killed"}')
    node.start()
    eventually(lambda: metric_of(brokers, "waiting"), lambda left: left == 0, "no letter waits", LIMIT_S)
    found = numbers(brokers)
    assert [number for number, times in found.items() if times > 1] == []
    missing = set(shop.rejected) - set(found)
    assert len(missing) == lost
    assert lost < 500  # of half a second: after a quarter of one it is looked whether letters have to go to disk
    assert len(found) > 1600
    del again


def test_letters_in_flight_of_a_killed_sidecar_are_sent_again_and_no_others(brokers: Lettered) -> None:
    """A broker that does not answer may have what was sent to it, or not: only these can come twice."""
    shop, node = Shop(brokers.sidecar.bootstrap), brokers.cluster.nodes[max(brokers.cluster.nodes)]
    shop.send(200)
    eventually(lambda: metric_of(brokers, "sent_total"), lambda sent: sent == 200, "letters sent", LIMIT_S)
    node.stop()
    for _ in range(20):
        shop.send(100)
        time.sleep(0.1)
    brokers.sidecar.program.kill()
    node.cont()
    brokers.sidecar.start_again()
    lost = metric_of(brokers, 'dropped_total{reason="killed"}')
    eventually(lambda: metric_of(brokers, "waiting"), lambda left: left == 0, "no letter waits", LIMIT_S)
    found = numbers(brokers)
    missing = set(shop.rejected) - set(found)
    assert len(missing) <= lost
    twice = [number for number, times in found.items() if times > 1]
    assert all(200 <= number < 320 for number in twice)  # of the first wave after the broker has stopped
    assert max(found.values()) <= 2


def test_letters_that_a_stopping_sidecar_cannot_send_are_sent_after_the_next_start_once(brokers: Lettered) -> None:
    shop, node = Shop(brokers.sidecar.bootstrap), brokers.cluster.nodes[max(brokers.cluster.nodes)]
    node.kill()
    shop.send(500)
    assert brokers.sidecar.stop() == 0
    brokers.sidecar.program = brokers.sidecar._spawn()
    brokers.sidecar.wait()
    node.start()
    eventually(lambda: metric_of(brokers, "waiting"), lambda left: left == 0, "no letter waits", LIMIT_S)
    assert numbers(brokers) == Counter(shop.rejected)
    assert len(shop.rejected) == 500
