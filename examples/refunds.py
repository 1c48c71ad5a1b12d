"""A record that a policy rejects: its producer gets the error, its dead letter is replayed once the policy has changed.

A sidecar of its own, because its rules change.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from customers import PATIENCE_S, Headers, Seen, first
from ledger import Finding
from rich.box import SIMPLE
from rich.table import Table
from sidecar import Sidecar

TOPIC, LETTERS = "refunds", "refunds.dlq"
TOPICS = (TOPIC, LETTERS)
CLIENT_ID = "demo-refunds"
KEY, VALUE = b"refund-1", b'{"order": 17, "amount": 12.5}'
HEADERS: Headers = [("app", b"web-shop")]
SENT_AT = 1_790_000_000_000  # ms since 1970
POLICIES = ("json, require_header:trace-id", "json")
REPLAYED = "kafka_sidecar.dlq.replayed"
STEP_S = 0.3


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and what it has printed."""

    line: str
    code: int
    output: str


class Refunds:
    """One refund without the header that its topic wants."""

    def __init__(self, brokers: str, nodes: int, folder: Path) -> None:
        self.commands: list[Command] = []
        self.error: KafkaError | None = None
        self._rules = folder / "refunds.yaml"
        self._write(POLICIES[0])
        creating = Producer({"bootstrap.servers": brokers})
        for topic in TOPICS:  # a metadata request creates them
            creating.list_topics(topic, timeout=10)
        creating.close()
        with Sidecar(brokers, folder / "refunds.log", self._rules) as sidecar:
            sidecar.wait_until_ready(nodes)
            self._send(sidecar.listen)
            self.letters = self._find_letters(sidecar.listen)
            self._run("list", sidecar.listen)
            self._write(POLICIES[1])
            sidecar.reload()
            self.replayed = self._replay(sidecar.listen)
            sidecar.stop()
        self.stored = first(brokers, TOPIC)

    def findings(self) -> Iterator[Finding]:
        name = None if self.error is None else self.error.name()
        yield Finding(
            name == "INVALID_RECORD" and self.letters == 1,
            f"a refund without a trace-id: its producer got {name}, and {LETTERS!r} has {self.letters} dead letter",
        )
        is_same = self.stored is not None and (
            (self.stored.value, self.stored.headers[: len(HEADERS)], self.stored.timestamp) == (VALUE, HEADERS, SENT_AT)
        )
        yield Finding(
            self.replayed == 1 and is_same,
            f"once the policy had changed {self.replayed} was replayed: it is in {TOPIC!r} as it was sent",
        )

    def table(self) -> Table:
        """The record at its places."""
        table = Table(
            box=SIMPLE,
            title=f"One record for {TOPIC!r}: rejected, kept as a dead letter, replayed after the policy has changed",
            caption=f"Policy {POLICIES[0]!r}, then {POLICIES[1]!r}.",
        )
        for column in ("where", "headers", "value"):
            table.add_column(column)
        for where, seen in (("sent", Seen(VALUE, HEADERS)), ("in the log, at last", self.stored)):
            headers = ", ".join(f"{key}={(value or b'').decode()}" for key, value in (seen.headers if seen else []))
            table.add_row(where, headers or "none", (seen.value or b"").decode() if seen else "never seen")
        return table

    def _write(self, policy: str) -> None:
        rules = {"topics": [{"name": TOPIC, "policy": policy, "dead_letters": LETTERS}]}
        self._rules.write_text(json.dumps(rules))  # which is YAML

    def _send(self, sidecar: str) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            self.error = error

        producer = Producer({"bootstrap.servers": sidecar, "client.id": CLIENT_ID})
        producer.produce(TOPIC, VALUE, KEY, headers=dict(HEADERS), timestamp=SENT_AT, on_delivery=delivered)
        producer.flush(PATIENCE_S)
        producer.close()

    def _find_letters(self, sidecar: str) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = int(json.loads(_call("list", sidecar, "--json").output or '{"letters": 0}')["letters"])
            if found or time.monotonic() > deadline:
                return found
            time.sleep(STEP_S)

    def _replay(self, sidecar: str) -> int:
        """How many were accepted; the new rules apply a moment after the signal."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = self._run("replay", sidecar)
            found = [line for line in done.output.splitlines() if line.endswith("passed over")]
            accepted = int(found[0].split()[0]) if found else 0
            if accepted or time.monotonic() > deadline:
                return accepted
            self.commands.pop()
            time.sleep(STEP_S)

    def _run(self, command: str, sidecar: str, *more: str) -> Command:
        done = _call(command, sidecar, *more)
        self.commands.append(done)
        return done


def _call(command: str, sidecar: str, *more: str) -> Command:
    words: list[Any] = ["dead-letters", command, LETTERS, "--bootstrap-servers", sidecar, *more]
    done = subprocess.run(
        [sys.executable, "-m", "kafka_sidecar", *words], capture_output=True, text=True, timeout=120, check=False
    )
    return Command(f"kafka-sidecar {' '.join(words)}", done.returncode, done.stdout)
