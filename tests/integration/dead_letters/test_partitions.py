"""Partitions of dead letter topics that take nothing: their letters wait, in order, and those of others arrive."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
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
  - {{name: "*", policy: json, dead_letters: "{{topic}}.dlq"}}
dead_letters: {{{disk}}}
audit: {{topic: counted, auditor.reporting.interval.ms: 1000, auditor.reporting.delay.ms: 0}}
"""
LIMIT_S = 60.0
PARTITIONS = 4


@dataclass
class Site:
    """Two brokers; the last one, which can be down, has partition 1 of each topic of letters, and nothing else."""

    lettered: Lettered
    down_s: float
    shop: Producer
    rejected: list[tuple[str, int, int]]  # topic, partition, number
    number: int = 0

    @property
    def last(self) -> int:
        return max(self.lettered.cluster.nodes)

    def send(self, records: int = 40) -> None:
        """Records that are rejected, to all partitions of two topics."""
        for _ in range(records):
            number, self.number = self.number, self.number + 1
            for topic in ("orders", "returns"):
                value, noting = b"%d no JSON" % number, self._noting(topic, number)
                self.shop.produce(topic, value, partition=number % PARTITIONS, on_delivery=noting)
        self.shop.flush(30)

    def _noting(self, topic: str, number: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _: Message) -> None:
            assert error is not None
            assert "INVALID_RECORD" in str(error)
            self.rejected.append((topic, number % PARTITIONS, number))

        return delivered

    def letters(self, topic: str, partition: int) -> list[int]:
        """The numbers of the letters of a partition, as they follow each other."""
        found = [read_letter(one) for one in logged(self.lettered.cluster.direct, f"{topic}.dlq", partition)]
        assert all(one.reasons.partition == partition for one in found)
        return [int((one.value or b"").split()[0]) for one in found]

    def expected(self, topic: str, partition: int) -> list[int]:
        return [number for one, at, number in self.rejected if (one, at) == (topic, partition)]

    def metric(self, name: str) -> float:
        return self.lettered.metric(f"dead_letters_{name}")

    def arrive(self, topic: str, partition: int) -> None:
        """All letters of a partition arrive, each once and in order."""
        expected = self.expected(topic, partition)
        eventually(lambda: len(self.letters(topic, partition)), lambda now: now >= len(expected), "all arrive", LIMIT_S)
        assert self.letters(topic, partition) == expected

    def all_arrive(self) -> None:
        eventually(lambda: self.metric("waiting"), lambda left: left == 0, "no letter waits", LIMIT_S)
        for topic in ("orders", "returns"):
            for partition in range(PARTITIONS):
                assert self.letters(topic, partition) == self.expected(topic, partition)


@pytest.fixture(
    params=[
        pytest.param((True, 8.0), id="disk"),
        pytest.param((True, 20.0), id="disk, long", marks=pytest.mark.slow),
        pytest.param((False, 20.0), id="memory, long", marks=pytest.mark.slow),
    ]
)
def site(request: pytest.FixtureRequest, two: Cluster, tmp_path: Path) -> Iterator[Site]:
    is_on_disk, down_s = request.param
    disk = f"spool_folder: {tmp_path}/letters" if is_on_disk else ""
    config = tmp_path / "sidecar.yaml"
    config.write_text(RULES.format(disk=disk))
    first, last = sorted(two.nodes)
    at = [[first], [last], [first], [first]]
    new = [NewTopic(f"{name}.dlq", PARTITIONS, replica_assignment=at) for name in ("orders", "returns")]
    new += [NewTopic(name, PARTITIONS, replica_assignment=[[first]] * PARTITIONS) for name in ("orders", "returns")]
    new.append(NewTopic("counted", 2, replica_assignment=[[first], [last]]))
    with (
        placed(two, new),
        Sidecar.start(two.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        shop = Producer({
            "bootstrap.servers": sidecar.bootstrap, "linger.ms": 2, "enable.idempotence": False,
            "batch.num.messages": 10, "max.in.flight": 1, "message.timeout.ms": 20_000,
        }, logger=SILENT)  # fmt: skip
        yield Site(Lettered(two, sidecar), down_s, shop, [])


def test_letters_of_other_partitions_arrive_while_one_has_no_leader_and_its_own_wait_in_order(site: Site) -> None:
    site.send()
    site.all_arrive()
    node = site.lettered.cluster.nodes[site.last]
    node.kill()
    end = time.monotonic() + site.down_s
    while time.monotonic() < end:
        site.send()
        time.sleep(0.5)
    for topic in ("orders", "returns"):
        for partition in (0, 2, 3):
            site.arrive(topic, partition)
    assert site.metric("held_partitions") == 2
    assert site.metric("held ") > 10 * site.down_s
    assert site.metric("oldest_seconds") > site.down_s - 5
    messages = Counter(line["message"] for line in site.lettered.lines())
    assert messages["dead letters wait for a partition"] == 2
    node.start()
    site.send()
    site.all_arrive()
    assert site.metric("dropped_total") == 0
    assert (site.metric("held_partitions"), site.metric("held ")) == (0, 0)
