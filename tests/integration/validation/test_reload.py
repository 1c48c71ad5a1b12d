"""Policies are exchanged twenty times while an idempotent producer sends: only what is rejected is affected."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from harness import json_lines
from harness.sidecar import Sidecar
from integration.scenarios.target import LIMIT_S, SILENT, eventually
from integration.validation.guarded import Guarded

pytestmark = pytest.mark.integration

VERSIONS = range(20)
TOPIC = "reloaded"
INVALID_RECORD = "INVALID_RECORD"


def rules(version: int) -> str:
    """Each version wants a header of its own."""
    return f"""
policies:
  wants-{version}: {{type: require_header, key: h{version}}}
topics:
  - {{name: {TOPIC}, policy: wants-{version}}}
"""


@pytest.fixture
def reloaded(guarded: Guarded, tmp_path: Path) -> Iterator[tuple[Guarded, Path]]:
    """A sidecar of its own in front of the same broker, and its file."""
    file = tmp_path / "sidecar.yaml"
    file.write_text(rules(VERSIONS[0]))
    flags = ["--config", str(file)]
    with Sidecar.start(guarded.cluster.bootstrap, tmp_path / "sidecar.log", flags) as sidecar:
        yield replace(guarded, sidecar=sidecar), file


class Sending(threading.Thread):
    """An idempotent producer with five requests in flight, one record in each.

    Record i lacks the header of version i mod 20 and has all others: one version alone refuses it.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.errors: list[str] = []  # by record; empty: it is acknowledged
        self.stopping = threading.Event()
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "logger": SILENT, "enable.idempotence": True, "max.in.flight": 5,
            "linger.ms": 0, "batch.num.messages": 1, "queue.buffering.max.messages": 200,
        })  # fmt: skip

    def run(self) -> None:
        headers: list[list[tuple[str, str | bytes | None]]] = [
            [(f"h{version}", b"") for version in VERSIONS if version != lacking] for lacking in VERSIONS
        ]
        while not self.stopping.is_set():
            at = len(self.errors)
            self.errors.append("?")
            while True:
                try:
                    self._producer.produce(
                        TOPIC, b"%d" % at, headers=headers[at % len(VERSIONS)], partition=0, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.01)
            self._producer.poll(0)
        assert self._producer.flush(LIMIT_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.errors[int(message.value() or b"")] = error.name() if error else ""

    def refused_by(self) -> Counter[int]:
        """The number of records validated by this version."""
        return Counter(at % len(VERSIONS) for at, error in enumerate(self.errors) if error)


def test_twenty_reloads_drop_no_connection_and_each_record_is_validated_by_one_version(
    reloaded: tuple[Guarded, Path],
) -> None:
    guarded, file = reloaded
    guarded.topic(TOPIC)

    def refused(*versions: int) -> list[float]:
        return guarded.metrics(
            *(f'rejected_records_total{{mode="enforce",policy="wants-{version}"' for version in versions)
        )

    sending = Sending(guarded.sidecar.bootstrap)
    sending.start()
    try:
        for version in VERSIONS:
            file.write_text(rules(version))
            guarded.sidecar.program.send_signal(signal.SIGHUP)
            both = (version, (version + 1) % len(VERSIONS))
            _, by_next = eventually(lambda: refused(*both), lambda found: found[0] > 0, f"version {version} in force")  # noqa: B023
            assert by_next == 0 or version == VERSIONS[-1]
    finally:
        sending.stopping.set()
        sending.join()
    assert {*sending.errors} == {"", INVALID_RECORD}
    assert sending.refused_by() == dict(zip(VERSIONS, refused(*VERSIONS), strict=True))
    lines = json_lines.read(guarded.sidecar.log)
    assert sum(line["message"] == "configuration applied" for line in lines) >= len(VERSIONS)
    # The client itself closes its first connection when it has learned of the brokers.
    assert [line for line in lines if line["message"] == "connection ended" and line["listener"] != "bootstrap"] == []
    assert guarded.stored(TOPIC) == [b"%d" % at for at, error in enumerate(sending.errors) if not error]
