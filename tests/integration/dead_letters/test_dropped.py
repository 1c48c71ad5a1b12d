"""Letters that the brokers never take: they are counted, and hold up no others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from harness.sidecar import Sidecar
from integration.dead_letters.lettered import Lettered
from integration.scenarios.target import SILENT, eventually

pytestmark = pytest.mark.integration

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def strict(lettered: Lettered, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lettered]:
    """A sidecar that creates no topics, with two workers, and no folder."""
    folder = tmp_path_factory.mktemp("strict")
    config = folder / "sidecar.yaml"
    config.write_text(
        """
workers: 2
nodes: {ports: 8}
topics:
  - {name: "*.dlq"}
  - {name: strict-named, policy: json, dead_letters: strict-missing.dlq}
  - {name: "*", policy: json, dead_letters: "{topic}.dlq"}
"""
    )
    log = folder / "sidecar.log"
    with Sidecar.start(lettered.cluster.bootstrap, log, ["--config", str(config)]) as sidecar:
        yield Lettered(lettered.cluster, sidecar)


def send(front: Lettered, topic: str, *timestamps_ms: int) -> None:
    """Records that are no JSON, in one batch, with these timestamps."""
    producer = Producer({"bootstrap.servers": front.sidecar.bootstrap, "linger.ms": 200}, logger=SILENT)
    for number, timestamp in enumerate(timestamps_ms or (1_700_000_000_000,)):
        producer.produce(topic, b"%d no JSON" % number, timestamp=timestamp)
    assert producer.flush(LIMIT_S) == 0


def dropped(front: Lettered, reason: str) -> float:
    return front.metric(f'dead_letters_dropped_total{{reason="{reason}"}}')


def test_letters_for_a_topic_that_does_not_exist_are_dropped_and_others_arrive(strict: Lettered) -> None:
    strict.topic("strict-a")
    strict.topic("strict-b")
    strict.topic("strict-b.dlq")
    before = dropped(strict, "no_topic")
    send(strict, "strict-a")
    send(strict, "strict-b")
    assert len(strict.letters("strict-b.dlq", 1, partitions=1)) == 1
    eventually(lambda: dropped(strict, "no_topic"), lambda now: now == before + 1, "a drop", LIMIT_S)
    assert "strict-a.dlq" not in strict.topics()


def test_a_topic_that_is_missing_is_reported_at_the_start_and_found_later(strict: Lettered) -> None:
    eventually(lambda: strict.metric("dead_letters_missing_topics"), lambda now: now == 1, "one missing", LIMIT_S)
    lines = [line for line in strict.lines() if line["message"] == "dead letter topic unusable"]
    assert {line["dead_letter_topic"] for line in lines} == {"strict-missing.dlq"}
    strict.topic("strict-named")
    strict.topic("strict-missing.dlq")
    eventually(lambda: strict.metric("dead_letters_missing_topics"), lambda now: now == 0, "none missing", 60)
    send(strict, "strict-named")
    assert len(strict.letters("strict-missing.dlq", 1, partitions=1)) == 1


def test_a_letter_that_the_broker_refuses_costs_no_other_of_its_batch(strict: Lettered) -> None:
    strict.topic("strict-times", message_timestamp_after_max_ms=str(1 << 62))
    strict.topic("strict-times.dlq")
    now, tomorrow = int(time.time() * 1000), int(time.time() * 1000) + 86_400_000
    before = dropped(strict, "refused")
    send(strict, "strict-times", now, now, tomorrow, now, now)
    found = strict.letters("strict-times.dlq", 4, partitions=1)
    assert [one.value for one in found] == [b"%d no JSON" % number for number in (0, 1, 3, 4)]
    eventually(lambda: dropped(strict, "refused"), lambda now: now == before + 1, "a drop", LIMIT_S)
    send(strict, "strict-times", now)
    assert len(strict.letters("strict-times.dlq", 5, partitions=1)) == 5


def test_letters_for_a_topic_that_is_deleted_hold_up_no_others(strict: Lettered) -> None:
    for name in ("strict-gone", "strict-gone.dlq", "strict-stays", "strict-stays.dlq"):
        strict.topic(name)
    send(strict, "strict-gone")
    send(strict, "strict-stays")
    strict.letters("strict-gone.dlq", 1, partitions=1)
    admin = AdminClient({"bootstrap.servers": strict.cluster.direct}, logger=SILENT)
    for done in admin.delete_topics(["strict-gone.dlq"]).values():
        done.result(20)
    before = dropped(strict, "no_topic")
    send(strict, "strict-gone")
    send(strict, "strict-stays")
    assert len(strict.letters("strict-stays.dlq", 2, partitions=1, limit_s=60)) == 2
    eventually(lambda: dropped(strict, "no_topic"), lambda now: now == before + 1, "a drop", 60)


def test_a_record_that_interceptors_would_change_is_a_letter_as_it_was_sent(lettered: Lettered, tmp_path: Path) -> None:
    config = tmp_path / "sidecar.yaml"
    config.write_text(
        """
topics: [{name: strict-changed, policy: json, dead_letters: strict-changed.dlq}]
interceptors: [{type: add_header, topics: ["*"], headers: {tenant: acme}}]
"""
    )
    flags = ["--config", str(config)]
    lettered.topic("strict-changed")
    lettered.topic("strict-changed.dlq")
    with Sidecar.start(lettered.cluster.bootstrap, tmp_path / "sidecar.log", flags) as sidecar:
        front = Lettered(lettered.cluster, sidecar)
        send(front, "strict-changed")
        [letter] = front.letters("strict-changed.dlq", 1, partitions=1)
        assert letter.headers == []
