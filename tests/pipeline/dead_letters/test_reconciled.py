"""A broker, a sidecar with audit and dead letters: all that was sent is stored, a dead letter, or named as lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from harness.cluster import Cluster
from harness.sidecar import COMMAND, Sidecar
from harness.versions import NEWEST
from integration.front import logged
from integration.replays.written import dead_letters
from integration.scenarios.target import LIMIT_S, SILENT, create_topic

from pipeline.conftest import SMALL

SENT, EACH = 300, 6  # every sixth record is invalid
CONFIG = """
topics:
  - {{name: orders, policy: "{policy}", dead_letters: orders.dlq}}
audit:
  topic: counted
  auditor.reporting.interval.ms: 1000
  auditor.reporting.delay.ms: 0
pipeline:
  master: local[2]
  spark: {spark}
"""


def reconcile(file: Path, brokers: str) -> list[str]:
    """All that is printed."""
    command = [
        str(COMMAND), "pipeline", "reconcile", "--config", str(file), "--bootstrap-servers", brokers, "--dead-letters",
        "orders.dlq", "--path", str(file.parent / "tables"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def reconciled(file: Path, brokers: str) -> str:
    """What is printed about orders."""
    (line,) = [line for line in reconcile(file, brokers) if line.startswith("orders: ")]
    return line


def produce(sidecar: str) -> list[str]:
    """The outcome of each record, in a batch of its own."""
    found: list[str] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        found.append("stored" if error is None else error.name())

    producer = Producer({
        "bootstrap.servers": sidecar, "client.id": "shop", "batch.num.messages": 1, "logger": SILENT,
    })  # fmt: skip
    for number in range(SENT):
        producer.produce("orders", b"{" if number % EACH == 0 else b"%d" % number, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0
    return found


def test_what_was_sent_is_stored_or_a_dead_letter_and_what_is_deleted_is_named_as_lost(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    with Cluster.start(NEWEST) as cluster:
        for topic in ("orders", "orders.dlq", "counted"):
            create_topic(cluster.direct, topic, 1)
        file.write_text(CONFIG.format(policy="json", spark=json.dumps(SMALL)))
        flags = ["--config", str(file)]
        with Sidecar.start(cluster.bootstrap, tmp_path / "log", flags) as sidecar:
            outcomes = produce(sidecar.bootstrap)
            rejected = SENT // EACH
            assert outcomes.count("stored") == SENT - rejected
            assert sidecar.stop() == 0
        assert len(logged(cluster.direct, "orders.dlq")) == rejected
        expected = f"orders: {SENT} sent = {SENT - rejected} stored + {rejected} rejected; {rejected} dead letters, "
        assert reconciled(file, cluster.direct) == f"{expected}0 lost, 0 replayed"

        file.write_text(CONFIG.format(policy="require_header:kafka_sidecar.dlq.replayed", spark=json.dumps(SMALL)))
        with Sidecar.start(cluster.bootstrap, tmp_path / "log", flags) as sidecar:
            done = dead_letters("replay", "orders.dlq", "--bootstrap-servers", sidecar.bootstrap)
            assert (done.returncode, f"{rejected} accepted" in done.stdout) == (0, True), done.stdout + done.stderr
            assert sidecar.stop() == 0
        assert reconciled(file, cluster.direct) == f"{expected}0 lost, {rejected} replayed"

        admin = AdminClient({"bootstrap.servers": cluster.direct})
        (deleted,) = admin.delete_records([TopicPartition("orders.dlq", 0, 3)]).values()
        deleted.result(LIMIT_S)
        left = f"{expected.rpartition(';')[0]}; {rejected - 3} dead letters, 3 lost, {rejected} replayed"
        assert reconciled(file, cluster.direct) == left
