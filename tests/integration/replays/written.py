"""Letters written by a plain producer, and the command run as its users run it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from confluent_kafka import Producer
from harness.sidecar import COMMAND
from integration.scenarios.target import SILENT
from support.dead_letters import REASONS

from kafka_sidecar.dead_letters.letter import Reasons

Pair = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as its producer has sent it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Pair, ...] = ()
    timestamp: int = 1_700_000_000_123
    reasons: Reasons = field(default=REASONS)


def write_letters(bootstrap: str, topic: str, letters: Iterable[Sent], partition: int = 0, codec: str = "none") -> None:
    """Store these in a dead letter topic, in their order."""
    producer = Producer({"bootstrap.servers": bootstrap, "logger": SILENT, "linger.ms": 50, "compression.type": codec})
    failed: list[str] = []
    for one in letters:
        why = [(header.key, header.value) for header in one.reasons.headers(len(one.headers))]
        producer.produce(
            topic, one.value, one.key, partition, timestamp=one.timestamp, headers=[*one.headers, *why],
            on_delivery=lambda error, message: failed.append(str(error)) if error else None,
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failed == []


def rejected(topic: str, **changed: object) -> Reasons:
    return replace(REASONS, topic=topic, **changed)  # type: ignore[arg-type]


def dead_letters(*arguments: str, limit_s: float = 180) -> subprocess.CompletedProcess[str]:
    """`kafka-sidecar dead-letters` with these arguments."""
    command = [str(COMMAND), "dead-letters", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
