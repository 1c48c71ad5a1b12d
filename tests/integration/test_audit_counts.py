"""What auditors are called with adds up to what real clients sent and read, batch by batch and offset by offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic

pytestmark = pytest.mark.integration

TOOLS = "org.apache.kafka.tools"
AUDITOR = """import json
from kafka_sidecar.audit.contract import BatchAuditor

class Ledger(BatchAuditor):
    def configure(self, configs):
        self.file = open(configs["file"], "a", buffering=1)

    def produced(self, client, topic, partition, timestamp, count, size, result, base_offset, latency_s):
        print(json.dumps([topic, partition, count, result.value, base_offset]), file=self.file)

    def delivered(
        self, client, group, topic, partition, timestamp, count, size, first, last, latency_s, hidden, aborted
    ):
        print(json.dumps([topic, partition, count, "read", first, last, group, aborted]), file=self.file)

    def committed(self, client, group, topic, partition, offset):
        print(json.dumps([topic, partition, offset, "committed", group]), file=self.file)
"""
Entry = list[Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(NEWEST, 1) as cluster:
        yield cluster


class Ledger:
    """A sidecar whose auditor writes its calls to a file."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        (folder / "ledger.py").write_text(AUDITOR)
        self.file = folder / "ledger.jsonl"
        self.file.touch()
        config = folder / "sidecar.yaml"
        config.write_text(
            f"audit: {{auditor_class: 'ledger:Ledger', class_path: {folder}, settings: {{file: {self.file}}}}}\n"
        )
        self.cluster = cluster
        self.sidecar = Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)])

    def entries(self, kind: str, topic: str) -> list[Entry]:
        found = map(json.loads, self.file.read_text().splitlines())
        return [entry for entry in found if entry[3] == kind and entry[0] == topic]

    def offsets(self, topic: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(partition, offset) of all records acknowledged, and of all read."""
        acked = [(index, base + at) for _, index, count, _, base in self.entries("acked", topic) for at in range(count)]
        read = [
            (index, offset)
            for _, index, _, _, first, last, *_ in self.entries("read", topic)
            for offset in range(first, last + 1)
        ]
        return sorted(acked), sorted(read)


@pytest.fixture
def ledger(cluster: Cluster, tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(cluster, tmp_path)
    with ledger.sidecar:
        yield ledger


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_each_record_of_javas_clients_is_counted_once(ledger: Ledger, compression: str) -> None:
    topic, count = f"java-{compression}", 20_000
    create_topic(ledger.cluster.direct, topic, 3)
    with ToolHost(NEWEST) as host:
        host.run(
            f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", count, "--record-size", 1000,
            "--throughput", -1, "--producer-props", f"bootstrap.servers={ledger.sidecar.bootstrap}",
            f"compression.type={compression}",
        )  # fmt: skip
        printed = host.run(
            f"{TOOLS}.VerifiableConsumer", "--bootstrap-server", ledger.sidecar.bootstrap, "--topic", topic,
            "--group-id", f"group-{topic}", "--max-messages", count, "--reset-policy", "earliest",
        )  # fmt: skip
    assert printed
    acked, read = ledger.offsets(topic)
    assert len(acked) == len(set(acked)) == count
    assert sum(entry[2] for entry in ledger.entries("read", topic)) == len(read)
    assert sorted(set(read)) == acked
    assert {entry[6] for entry in ledger.entries("read", topic)} == {f"group-{topic}"}
    committed = {entry[1]: entry[2] for entry in ledger.entries("committed", topic)}
    assert sum(committed.values()) == count


def test_records_of_aborted_transactions_are_counted_apart(ledger: Ledger) -> None:
    topic = "transactions"
    create_topic(ledger.cluster.direct, topic, 1)
    producer = Producer(
        {"bootstrap.servers": ledger.sidecar.bootstrap, "transactional.id": "audited", "logger": SILENT}
    )
    producer.init_transactions(LIMIT_S)
    for round_, (count, commits) in enumerate(((30, False), (20, True), (10, False), (5, True))):
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, b"%d %d" % (round_, number))
        producer.flush(LIMIT_S)
        if commits:
            producer.commit_transaction(LIMIT_S)
        else:
            producer.abort_transaction(LIMIT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": ledger.sidecar.bootstrap, "group.id": "committed", "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "logger": SILENT,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    read = 0
    while read < 25:
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None
        read += 1
    consumer.close()
    acked, offsets = ledger.offsets(topic)
    assert len(acked) == 65
    assert sorted(set(offsets)) == acked
    entries = ledger.entries("read", topic)
    assert (sum(entry[2] for entry in entries), sum(entry[7] for entry in entries)) == (25, 40)
