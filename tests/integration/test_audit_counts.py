"""What auditors are called with adds up to what real clients sent and read, batch by batch and offset by offset."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from harness import json_lines
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually

from kafka_sidecar.proxy.features.auditing.counting import MAX_DELAY_S

pytestmark = pytest.mark.integration

TOOLS = "org.apache.kafka.tools"
AUDITOR = """import json
from kafka_sidecar.audit.contract import BatchAuditor

class Ledger(BatchAuditor):
    def configure(self, configs):
        self.file = open(configs["file"], "a", buffering=1)

    def write(self, topic, partition, count, kind, *more):
        print(json.dumps([topic, partition, count, kind, *more]), file=self.file)

    def produced(self, client, topic, partition, batch):
        self.write(topic, partition, batch.count, batch.result.value, batch.first_offset)

    def duplicated(self, client, topic, partition, batch, is_certain):
        self.write(topic, partition, batch.count, "duplicated", batch.first_offset, is_certain)

    def delivered(self, client, group, topic, partition, batch):
        self.write(topic, partition, batch.count, "read", batch.first_offset, batch.last_offset, group, batch.aborted)

    def committed(self, client, group, topic, partition, offset):
        self.write(topic, partition, offset, "committed", group)

    def acquired(self, client, group, topic, partition, batch):
        offsets = batch.first_offset, batch.last_offset
        self.write(topic, partition, batch.count, "acquired", *offsets, group, batch.deliveries)

    def accepted(self, client, group, topic, partition, first, last):
        self.write(topic, partition, last - first + 1, "accepted", first, last, group)
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
        found = map(json.loads, json_lines.whole(self.file.read_bytes()))
        return [entry for entry in found if entry[3] == kind and entry[0] == topic]

    def offsets(self, topic: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(partition, offset) of all records acknowledged, and of all read, up to now."""
        time.sleep(5 * MAX_DELAY_S)  # what passes is counted somewhat later
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


@pytest.mark.parametrize("compression", ["lz4", pytest.param("none", marks=pytest.mark.matrix)])
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


def from_the_start(bootstrap: str, host: ToolHost, group: str) -> None:
    """Let a share group begin at the start of the log."""
    host.run(
        "org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", bootstrap, "--entity-type", "groups",
        "--entity-name", group, "--alter", "--add-config", "share.auto.offset.reset=earliest",
    )  # fmt: skip


def each(entries: list[Entry]) -> list[tuple[int, int]]:
    """(partition, offset) of all ranges, as often as they are there."""
    return sorted((entry[1], offset) for entry in entries for offset in range(entry[4], entry[5] + 1))


def test_each_record_of_javas_share_consumers_is_counted_once(ledger: Ledger) -> None:
    topic, group, count = "shared", "workers", 3000
    create_topic(ledger.cluster.direct, topic, 2)
    with ToolHost(NEWEST) as host:
        from_the_start(ledger.cluster.direct, host, group)
        host.run(
            f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", count, "--record-size", 100,
            "--throughput", -1, "--producer-props", f"bootstrap.servers={ledger.sidecar.bootstrap}",
            "compression.type=lz4",
        )  # fmt: skip
        printed = host.run(
            f"{TOOLS}.consumer.ConsoleShareConsumer", "--bootstrap-server", ledger.sidecar.bootstrap, "--topic", topic,
            "--group", group, "--max-messages", count, "--timeout-ms", 20000,
        )  # fmt: skip
    assert len(printed.splitlines()) == count
    acked, _ = ledger.offsets(topic)
    acquired, accepted = ledger.entries("acquired", topic), ledger.entries("accepted", topic)
    assert each(acquired) == each(accepted) == acked
    assert sum(entry[2] for entry in acquired) == count
    assert {(entry[6], entry[7]) for entry in acquired} == {(group, 1)}
    assert {entry[6] for entry in accepted} == {group}


def test_records_that_a_share_consumer_releases_are_given_out_again_and_rejected_ones_not_accepted(
    ledger: Ledger,
) -> None:
    topic, group = "released", "explicit"
    create_topic(ledger.cluster.direct, topic, 1)
    with ToolHost(NEWEST) as host:
        from_the_start(ledger.cluster.direct, host, group)
    producer = Producer({"bootstrap.servers": ledger.sidecar.bootstrap, "linger.ms": 200, "logger": SILENT})
    for number in range(20):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(LIMIT_S) == 0
    seen: list[int] = []
    with ShareConsumer({
        "bootstrap.servers": ledger.sidecar.bootstrap, "group.id": group, "logger": SILENT,
        "share.acknowledgement.mode": "explicit",
    }) as consumer:  # fmt: skip
        consumer.subscribe([topic])
        deadline = time.monotonic() + LIMIT_S
        while len(seen) < 23:  # the first three twice
            assert time.monotonic() < deadline, seen
            for message in consumer.poll(0.5):
                offset = message.offset()
                assert message.error() is None
                assert offset is not None
                is_first = offset not in seen
                seen.append(offset)
                types = {0: AcknowledgeType.RELEASE, 1: AcknowledgeType.RELEASE, 2: AcknowledgeType.RELEASE}
                kind = types.get(offset, AcknowledgeType.ACCEPT) if is_first else AcknowledgeType.ACCEPT
                consumer.acknowledge(message, AcknowledgeType.REJECT if offset == 19 else kind)
            consumer.commit_sync(LIMIT_S)
    acquired = ledger.entries("acquired", topic)
    assert each([entry for entry in acquired if entry[7] == 1]) == [(0, offset) for offset in range(20)]
    assert each([entry for entry in acquired if entry[7] == 2]) == [(0, offset) for offset in range(3)]
    assert each(ledger.entries("accepted", topic)) == [(0, offset) for offset in range(19)]


def test_later_copies_of_what_javas_producer_sends_again_are_named(ledger: Ledger) -> None:
    topic, count = "hung", 100
    create_topic(ledger.cluster.direct, topic, 1)
    broker = ledger.cluster.node(1)
    settings = (
        f"bootstrap.servers={ledger.sidecar.bootstrap}", "enable.idempotence=false", "acks=1", "linger.ms=50",
        "request.timeout.ms=1000", "delivery.timeout.ms=25000",
    )  # fmt: skip
    with ToolHost(NEWEST) as host, ThreadPoolExecutor(1) as others:
        sending = others.submit(
            host.run, f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", count, "--record-size", 100,
            "--throughput", 20, "--producer-props", *settings,
        )  # fmt: skip
        eventually(lambda: len(ledger.entries("acked", topic)), lambda n: n > 3, "some records are acknowledged")
        broker.stop()
        time.sleep(2.5)  # longer than the producer waits
        broker.cont()
        sending.result(60)
    acked, _ = ledger.offsets(topic)
    named = {
        offset
        for _, _, number, _, base, is_certain in ledger.entries("duplicated", topic)
        for offset in range(base, base + number)
        if is_certain
    }
    assert len(acked) == len(set(acked)) == count + len(named)
    assert named
