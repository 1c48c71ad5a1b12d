"""Connections to the broker that end in the middle of a large message: the record is stored once, and whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness.cluster import Cluster
from harness.fault_proxy import Fault, FaultProxy
from harness.ports import free_ports
from harness.sidecar import NODE_PORTS, Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.balancer import CHECK_EVERY_S, Balancer
from integration.large_messages.senders import LIBRARIES, Sender, Sent, senders
from integration.large_messages.stored import LargeFront
from integration.large_messages.written_logs import PRODUCE
from integration.scenarios.target import LIMIT_S, SILENT, eventually
from integration.validation.wire import Wire

from kafka_sidecar.codec.records import NewRecord, build_batch

pytestmark = pytest.mark.integration

RULES = 'large_messages: {topics: [{name: "unique-*", compacted: unique}, {name: "large-*"}]}'
GATEWAYS, BALANCER = ("127.1.0.1", "127.1.0.2"), "127.1.0.9"
QUICK_CLEANER = {"log.cleaner.backoff.ms": 200}
LIMIT = 20_000
SMALL, LARGE = b"small", os.urandom(90_000)
IN_CI = "librdkafka"
FIRST_LIBRARY = [IN_CI, *(pytest.param(one, marks=pytest.mark.matrix) for one in LIBRARIES if one != IN_CI)]
SLICES = -(-(len(LARGE) - 1) // (LIMIT - 108))  # of LARGE
WAVES = {1: [[SMALL], [LARGE], [SMALL]], 5: [[SMALL], [b"1", LARGE, b"3", LARGE[::-1], b"5"], [SMALL]]}


def is_carrier(frame: bytes) -> bool:
    return b"_lmr" in frame


def is_slice(frame: bytes) -> bool:
    return b"_lm" in frame and not is_carrier(frame)


class Times:
    """A fault at some of the requests, so often."""

    def __init__(self, fault: Fault, at: Callable[[bytes], bool], every: int, times: int) -> None:
        self._fault, self._at, self._every, self.left = fault, at, every, times
        self._seen = 0

    def __call__(self, frame: bytes) -> Fault | None:
        if not self.left or not self._at(frame):
            return None
        self._seen += 1
        if self._seen % self._every:
            return None
        self.left -= 1
        return self._fault


# What is lost: the response to the carrier; the carrier; all from the third slice on.
FAULTS = {
    "response": lambda times: Times(Fault.AFTER, is_carrier, 1, times),
    "carrier": lambda times: Times(Fault.BEFORE, is_carrier, 1, times),
    "slices": lambda times: Times(Fault.BEFORE, is_slice, 3, times),
}


@pytest.fixture(scope="module")
def front(
    java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LargeFront, FaultProxy]]:
    folder = tmp_path_factory.mktemp("faults")
    config = folder / "sidecar.yaml"
    config.write_text(RULES)
    (port,) = free_ports(1, keep=True)
    with (
        Cluster.start(NEWEST, 1, QUICK_CLEANER, fronts={1: port}) as cluster,
        FaultProxy(port, cluster.node(1).ports.sidecar) as between,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        yield LargeFront(cluster, sidecar, java), between
        assert cluster.leaks() == []


@pytest.fixture(scope="module")
def producers(java: Mapping[str, ToolHost]) -> Mapping[str, Sender]:
    return senders(java)


def check(front: tuple[LargeFront, FaultProxy], send: Sender, name: str, fault: str, records: int, times: int) -> None:
    large, between = front
    topic = large.topic(f"large-{name}", max_message_bytes=str(LIMIT))
    between.fault = faults = FAULTS[fault](times)
    try:
        sent = send(large.sidecar.bootstrap, topic, WAVES[records])
    finally:
        between.fault = lambda frame: None
    assert faults.left == 0
    found = large.assembled(topic)
    assert found.values == [value for wave in WAVES[records] for value in wave]
    assert [Sent(record.offset) for record in found.records] == sent
    # The retry uses what the broker has acknowledged; what was on its way is stored twice.
    assert found.orphans <= (times * (records // 2 or 1) * SLICES if fault == "slices" else 0)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_an_idempotent_producer_stores_each_record_once_after_a_lost_connection(
    front: tuple[LargeFront, FaultProxy], producers: Mapping[str, Sender], library: str, fault: str
) -> None:
    check(front, producers[library], f"{library}-{fault}", fault, 5, 1)


def test_a_retry_through_a_second_sidecar_while_the_first_still_sends_is_stored_once(
    front: tuple[LargeFront, FaultProxy], tmp_path: Path
) -> None:
    large, between = front
    topic = large.topic("large-two-sidecars", max_message_bytes=str(LIMIT))
    data = build_batch([NewRecord(LARGE)], producer_id=88_000, producer_epoch=0, base_sequence=0)

    def send(bootstrap: str) -> tuple[int, int]:
        with Wire(bootstrap) as wire:
            answer = wire.produce(PRODUCE, {topic: {0: data}})[topic, 0]
            return answer.code, answer.base_offset

    (tmp_path / "sidecar.yaml").write_text(RULES)
    flags = ["--config", str(tmp_path / "sidecar.yaml")]
    between.fault = held = Times(Fault.LATER, is_carrier, 1, 1)
    with (
        Sidecar.start(large.cluster.bootstrap, tmp_path / "sidecar.log", flags) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        try:
            first = pool.submit(send, large.sidecar.bootstrap)
            eventually(lambda: held.left, lambda left: left == 0, "the first sidecar sends the carrier")
            stored = send(second.bootstrap)
            assert not first.done()
        finally:
            between.go_on()
            between.fault = lambda frame: None
        assert first.result(LIMIT_S) == stored == (0, 2 * SLICES)
    found = large.assembled(topic)
    assert ([record.offset for record in found.records], found.values) == ([2 * SLICES], [LARGE])
    assert found.orphans == SLICES


@pytest.mark.matrix
def test_librdkafka_that_goes_to_a_second_sidecar_while_the_first_still_sends_stores_the_record_once(
    front: tuple[LargeFront, FaultProxy], tmp_path: Path
) -> None:
    """A load balancer takes the first of two gateways out while the broker has not got its carrier."""
    large, between = front
    topic = large.topic("large-two-gateways", max_message_bytes=str(LIMIT))
    listen, removed = free_ports(1 + NODE_PORTS, keep=True)[0], set[str]()
    (tmp_path / "sidecar.yaml").write_text(f"{RULES}\nnodes: {{ports: {NODE_PORTS}}}\n")
    common = ["--config", str(tmp_path / "sidecar.yaml"), "--advertised-host", BALANCER, "--listen"]
    errors: list[object] = []
    with ExitStack() as stack:
        for host in GATEWAYS:
            flags = [*common, f"{host}:{listen}"]
            stack.enter_context(Sidecar.start(large.cluster.bootstrap, tmp_path / f"{host}.log", flags))
        ports = [listen, listen + 2]  # of bootstrap and of the only node
        stack.enter_context(Balancer(BALANCER, ports, GATEWAYS, lambda host: host not in removed))
        removed.add(GATEWAYS[1])
        time.sleep(5 * CHECK_EVERY_S)
        producer = Producer({
            "bootstrap.servers": f"{BALANCER}:{listen}", "logger": SILENT, "enable.idempotence": True,
            "message.max.bytes": 1 << 20, "request.timeout.ms": 2000, "socket.timeout.ms": 2000,
        })  # fmt: skip
        between.fault = held = Times(Fault.LATER, is_carrier, 1, 1)
        try:
            producer.produce(topic, LARGE, partition=0, on_delivery=lambda error, _: errors.append(error))
            eventually(lambda: (producer.poll(0), held.left)[1], lambda left: left == 0, "the carrier is on its way")
            removed.symmetric_difference_update(GATEWAYS)
            assert producer.flush(2 * LIMIT_S) == 0
        finally:
            between.go_on()
            between.fault = lambda frame: None
        assert errors == [None]
        time.sleep(1)  # in which the broker gets the first carrier
    found = large.assembled(topic)
    assert found.values == [LARGE]
    assert found.orphans == SLICES


def compacted_topic(front: LargeFront, name: str) -> str:
    return front.topic(
        name, max_message_bytes=str(LIMIT), cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01"
    )


@pytest.mark.parametrize("library", FIRST_LIBRARY)
def test_a_message_in_a_compacted_topic_stays_whole_after_a_retry_and_a_compaction(
    front: tuple[LargeFront, FaultProxy], producers: Mapping[str, Sender], library: str
) -> None:
    large, between = front
    topic = compacted_topic(large, f"unique-messages-{library}")
    between.fault = lost = FAULTS["response"](1)
    (sent,) = producers[library](large.sidecar.bootstrap, topic, [[LARGE]])
    assert lost.left == 0
    filler = Producer({"bootstrap.servers": large.cluster.direct, "logger": SILENT})

    def fillers() -> list[bytes | None]:
        """One more in a segment of its own; those that compaction has left."""
        filler.produce(topic, b"filler", b"filler")
        assert filler.flush(LIMIT_S) == 0
        time.sleep(0.2)
        return [value for value in large.stored(topic) if value == b"filler"]

    eventually(lambda: [fillers() for _ in range(6)][-1], lambda left: len(left) < 6, "compaction")
    found = large.assembled(topic)
    assert (found.records[0].offset, found.records[0].value) == (sent.offset, LARGE)
    assert found.orphans == SLICES


def test_a_large_value_for_a_compacted_topic_is_rejected_unless_configured(
    front: tuple[LargeFront, FaultProxy], producers: Mapping[str, Sender]
) -> None:
    large, _ = front
    topic = compacted_topic(large, "large-compacted")
    sent = producers["librdkafka"](large.sidecar.bootstrap, topic, [[SMALL], [LARGE], [SMALL]])
    assert [one.error for one in sent] == ["", "MSG_SIZE_TOO_LARGE", ""]
    (line,) = (line for line in large.lines() if line.get("topic") == topic)
    assert "the topic is compacted: slices need unique keys" in line["detail"]
    assert set(large.stored(topic)) == {SMALL}


@pytest.mark.matrix
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("records", WAVES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_idempotent_producer_stores_each_record_once_after_several_lost_connections(
    front: tuple[LargeFront, FaultProxy], producers: Mapping[str, Sender], library: str, fault: str, records: int,
    times: int,
) -> None:  # fmt: skip
    check(front, producers[library], f"{library}-{fault}-{records}-{times}", fault, records, times)
