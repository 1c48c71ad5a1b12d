"""The examples of hooks, in a sidecar with a cluster: each does what its docstring says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from harness import admin_pages
from harness.ports import free_ports
from harness.processes import Program
from support.pages import ROOT

pytestmark = pytest.mark.program

BIN = Path(sys.executable).parent
EXAMPLES = ROOT / "examples" / "interceptors"
LIMIT_S = 20.0


class Example:
    """The examples' sidecar and its cluster."""

    def __init__(self, listen: str, admin: str, brokers: str) -> None:
        self.listen, self.brokers = listen, brokers
        self._admin = admin

    def metric(self, series: str) -> float | None:
        lines = admin_pages.get(f"http://{self._admin}/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} ")), None)

    def send(self, client_id: str, *values: str) -> None:
        producer = Producer({"bootstrap.servers": self.listen, "client.id": client_id})
        for value in values:
            producer.produce("orders", value, partition=0, headers=[("tenant", b"whoever"), ("internal", b"1")])
        assert producer.flush(LIMIT_S) == 0
        producer.close()

    def consumer(self, client_id: str) -> Consumer:
        consumer = Consumer({
            "bootstrap.servers": self.listen, "client.id": client_id, "group.id": "g", "enable.auto.commit": False,
        })  # fmt: skip
        consumer.assign([TopicPartition("orders", 0, 0)])
        return consumer

    def member(self, group: str) -> Consumer:
        """The only member of a group: it has the topic's partitions."""
        consumer = Consumer({
            "bootstrap.servers": self.listen, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.subscribe(["orders"])
        end = time.monotonic() + LIMIT_S
        while not consumer.assignment() and time.monotonic() < end:
            consumer.poll(0.1)
        assert consumer.assignment()
        return consumer


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    end = time.monotonic() + LIMIT_S
    while len(found) < count and time.monotonic() < end:
        found += [message for message in consumer.consume(10, 0.2) if not message.error()]
    return found


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    folder = tmp_path_factory.mktemp("interceptors")
    config = EXAMPLES / "sidecar.yaml"
    cluster = Program([sys.executable, ROOT / "examples" / "mock_cluster.py"], folder / "cluster.log")
    try:
        cluster.wait_for(lambda: cluster.output().endswith("\n"), "telling its addresses", 20)
        brokers = cluster.output().strip()
        ports = free_ports(6)
        listen, admin = f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[-1]}"
        flags = ["--config", str(config), "--bootstrap-servers", brokers, "--listen", listen, "--admin", admin]
        sidecar = Program([BIN / "kafka-sidecar", "run", *flags], folder / "sidecar.log")
        try:
            sidecar.wait_for(lambda: "broker listener opened" in sidecar.output(), "ready", 20)
            made = Example(listen, admin, brokers)
            made.send("shop", "one", "two")
            made.send("billing", "other")
            yield made
        finally:
            sidecar.kill()
    finally:
        cluster.kill()


def test_on_send_adds_the_owner_to_every_record(example: Example) -> None:
    with_consumer = example.consumer("anybody")
    records = read(with_consumer, 3)
    with_consumer.close()
    assert [(record.value(), list(record.headers() or ())[-1]) for record in records] == [
        (b"one", ("tenant", b"acme")),
        (b"two", ("tenant", b"acme")),
        (b"other", ("tenant", b"globex")),
    ]
    assert all(len(record.headers() or []) == 2 for record in records)


def test_on_acknowledgement_counts_what_was_written(example: Example) -> None:
    labels = 'interceptor="receipts:Receipts",outcome="written",topic="orders"'
    assert example.metric(f"kafka_sidecar_receipts_total{{{labels}}}") == 3


def test_on_consume_removes_other_tenants_records_and_the_position_advances(example: Example) -> None:
    consumer = example.consumer("shop-reader")
    records = read(consumer, 2)
    assert [(record.value(), record.headers()) for record in records] == [
        (b"one", [("tenant", b"acme")]),
        (b"two", [("tenant", b"acme")]),
    ]
    end = time.monotonic() + LIMIT_S
    while consumer.position([TopicPartition("orders", 0)])[0].offset < 3 and time.monotonic() < end:
        assert read(consumer, 0) == []
        consumer.poll(0.1)
    assert consumer.position([TopicPartition("orders", 0)])[0].offset == 3
    consumer.close()


def test_pre_commit_prevents_smaller_offsets_and_on_commit_sees_the_committed_ones(example: Example) -> None:
    consumer = example.member("g")
    partition = TopicPartition("orders", 0)
    for offset in (2, 1):  # the second is answered with success, and changes nothing
        committed = consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        assert [one.error for one in committed] == [None]
    assert consumer.committed([partition], timeout=10)[0].offset == 2
    consumer.close()
    labels = 'group="g",interceptor="progress:Progress",partition="0",topic="orders"'
    assert example.metric(f"kafka_sidecar_committed_offset{{{labels}}}") == 2
