"""From a rejection to its record: the sidecar's own letters are listed, shown and replayed after a policy change."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from harness.sidecar import Sidecar
from integration.front import Front, logged
from integration.replays.written import dead_letters
from integration.scenarios.target import LIMIT_S, SILENT, eventually

from kafka_sidecar.dead_letters.letter import REPLAYED

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Key, value, headers, timestamp.
Plain = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
TOPIC, LETTERS = "real-orders", "real-orders.dlq"
LARGE = "real-large"
SMALL: list[Plain] = [
    (b"k%d" % n if n % 3 else None, None if n == 4 else b"{ %d \xff" % n, (("h", b"\xfe"), ("n", None)),
     1_700_000_000_000 + n)
    for n in range(20)
]  # fmt: skip
BIG: Plain = (b"big", b"{" + bytes(5_000_000), (), 1_700_000_000_000)


def rules(policy: str) -> str:
    return f"""
policies:
  few: {{type: limits, max_records: 100000}}
topics:
  - {{name: {TOPIC}, policy: "{policy}", dead_letters: "{{topic}}.dlq"}}
  - {{name: {LARGE}, policy: "{policy}", dead_letters: {LARGE}.dlq}}
large_messages:
  topics:
    - {{name: "{LARGE}*", max_message: 16MiB}}
"""


@pytest.fixture
def own(front: Front, tmp_path: Path) -> Iterator[tuple[Front, Path]]:
    """A sidecar of its own in front of the same broker, and its file."""
    file = tmp_path / "sidecar.yaml"
    file.write_text(rules("json"))
    for topic, partitions in ((TOPIC, 5), (LETTERS, 2), (LARGE, 1), (f"{LARGE}.dlq", 1)):
        front.topic(topic, partitions)
    with Sidecar.start(front.cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(file)]) as sidecar:
        yield replace(front, sidecar=sidecar), file


def test_what_was_rejected_arrives_once_after_the_policy_has_changed(own: tuple[Front, Path]) -> None:
    front, file = own
    for partition, codec in enumerate(CODECS):
        send(front, TOPIC, SMALL, codec, partition)
    send(front, LARGE, [BIG], "none", 0)
    at = ("--bootstrap-servers", front.sidecar.bootstrap)

    def asked(*words: str) -> Any:
        return json.loads(dead_letters(*words, *at, "--json").stdout)

    def all_letters() -> int:
        return int(asked("list", "real-*.dlq")["letters"])

    eventually(all_letters, lambda number: number == 101, "the letters", LIMIT_S)
    listed = asked("list", LETTERS, f"{LARGE}.dlq")["groups"]
    assert {one["topic"] for one in listed if one["reason"]} == {TOPIC, LARGE}
    by_file = asked("list", "--config", str(file))
    assert by_file["letters"] == 101
    example = next(one["example"] for one in by_file["groups"] if one["topic"] == TOPIC)
    (shown,) = asked("show", example)
    assert (shown["topic"], shown["policy"], shown["client_id"]) == (TOPIC, "json", "shop")
    assert "value" not in shown
    same = dead_letters("show", LETTERS, "--rejection-id", shown["rejection_id"], *at, "--values")
    assert shown["rejection_id"] in same.stdout
    assert "base64" in same.stdout

    still = dead_letters("replay", LETTERS, *at, "--json")
    report = json.loads(still.stdout)
    # One record of each batch is valid: it was rejected with the others.
    assert (still.returncode, report["accepted"], report["rejected"]) == (1, len(CODECS), 100 - len(CODECS))
    assert all_letters() == 101  # none became a letter a second time

    file.write_text(rules("few"))
    front.sidecar.program.send_signal(signal.SIGHUP)
    again, total = partial(asked, "replay", "real-*.dlq"), len(CODECS)
    while total < 101:
        found = eventually(again, lambda report: report["accepted"] > 0, "the new policy", LIMIT_S)
        total += found["accepted"]
    assert total == 101
    assert dead_letters("replay", "real-*.dlq", *at).returncode == 0
    for partition in range(len(CODECS)):
        arrived = [
            (one.key(), one.value(), tuple(header for header in one.headers() or () if header[0] != REPLAYED),
             one.timestamp()[1])
            for one in front.log(TOPIC, partition, "read_committed")
        ]  # fmt: skip
        first = next(one for one in SMALL if one[1] is None)
        assert arrived == [first, *(one for one in SMALL if one is not first)]
    (big,) = logged(front.sidecar.bootstrap, LARGE, 0, "read_committed")
    assert (big.key(), big.value()) == BIG[:2]
    assert all_letters() == 101


def send(front: Front, topic: str, records: list[Plain], codec: str, partition: int) -> None:
    """All of them, which are rejected."""
    errors: list[str] = []
    producer = Producer({
        "bootstrap.servers": front.sidecar.bootstrap, "client.id": "shop", "compression.type": codec, "logger": SILENT,
        "linger.ms": 50, "message.max.bytes": 20_000_000, "enable.idempotence": True,
    })  # fmt: skip
    for key, value, headers, timestamp in records:
        producer.produce(
            topic, value, key, partition, timestamp=timestamp, headers=dict(headers),
            on_delivery=lambda error, message: errors.append(error.name() if error else "stored"),
        )  # fmt: skip
    assert producer.flush(60) == 0
    assert set(errors) <= {"INVALID_RECORD", "_INVALID_DIFFERENT_RECORD"}
