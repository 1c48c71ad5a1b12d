"""acks=1: slices that were acknowledged are lost with their leader. Consumers never get wrong bytes.

A carrier without its slices needs a leader that loses the partition between the two, and leads it again before the
carrier comes, on the same connection.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from harness.cluster import Node
from harness.fault_proxy import Fault
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from integration.interception.reads import How as Reading
from integration.interception.reads import Reader
from integration.interception.wire import FetchWire
from integration.large_messages.senders import LIBRARIES, How, librdkafka
from integration.large_messages.three import NODES, Three, three_brokers
from integration.large_messages.written_logs import PRODUCE
from integration.partitions import leaders
from integration.scenarios.target import LIMIT_S, eventually
from integration.validation.wire import METADATA_VERSION, Wire

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.records import NewRecord, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

RULES = 'large_messages: {topics: [{name: "acked-*"}]}'
STRICT_RULES = 'large_messages: {topics: [{name: "acked-*", on_missing: fail}]}'
NEWEST_FETCH = 18
LIMIT = 20_000
LARGE = os.urandom(90_000)
SLICES = 5
FIRST, AFTER = b"first", b"after"
# What a new leader stores where the slices were: records of others, or nothing, so that the carrier has an offset that
# is among its own pointers.
OTHERS: Mapping[str, list[bytes]] = {"overwritten": [b"other-%d" % number for number in range(7)], "emptied": []}
NOT_IDEMPOTENT = How(acks="1", is_idempotent=False)
STABLE = 4  # checks in a row
FETCH_IS_OVER_S = 1.5  # replica.fetch.wait.max.ms is 500: no follower waits for a response then


@pytest.fixture(scope="module")
def three(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    with three_brokers(tmp_path_factory.mktemp("lost"), RULES, java) as front:
        yield front


@pytest.fixture(scope="module")
def strict(three: Three, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A second sidecar, with ``on_missing: fail``."""
    folder = tmp_path_factory.mktemp("strict")
    (folder / "sidecar.yaml").write_text(STRICT_RULES)
    flags = ["--config", str(folder / "sidecar.yaml")]
    with Sidecar.start(three.cluster.bootstrap, folder / "sidecar.log", flags) as sidecar:
        yield sidecar


class Loss:
    """A fault: the leader alone gets the slices, and has lost them when something happens at the carrier."""

    def __init__(self, three: Three, topic: str, at_carrier: Callable[[Loss], Fault | None]) -> None:
        self.topic = topic
        self.leader = three.cluster.node(leaders(three.cluster, topic)[0])
        self.followers = [three.cluster.node(node) for node in NODES if node != self.leader.id]
        self.acknowledged_end = -1  # of the log, at the carrier: all slices are stored
        self._at_carrier: Callable[[Loss], Fault | None] | None = at_carrier
        self._is_alone = False

    def __call__(self, frame: bytes) -> Fault | None:
        if self._at_carrier is None or b"_lm" not in frame:
            return None
        if not self._is_alone:
            self._is_alone = True
            for node in self.followers:
                node.stop()
            time.sleep(FETCH_IS_OVER_S)
        if b"_lmr" not in frame:
            return None
        self.acknowledged_end = end_of(self.leader, self.topic)
        happens, self._at_carrier = self._at_carrier, None
        return happens(self)

    def led_by_another(self) -> Node:
        """Lets the followers go on without the leader; the node that leads then."""
        for node in self.followers:
            node.cont()
        asked = self.followers[0]
        number = eventually(
            lambda: leader_at(asked, self.topic), lambda found: found not in (-1, self.leader.id), "a leader", 60.0
        )
        return next(node for node in self.followers if node.id == number)

    def heal(self) -> None:
        for node in (self.leader, *self.followers):
            node.cont()


def is_back(loss: Loss, end: int) -> bool:
    """Whether all brokers say now that the first leader leads, with a log that ends there."""
    time.sleep(0.5)
    known = {leader_at(node, loss.topic) for node in (loss.leader, *loss.followers)}
    return known == {loss.leader.id} and end_of(loss.leader, loss.topic) == end


def wire(node: Node) -> Wire:
    return Wire(f"127.0.0.1:{node.ports.direct}")


def leader_at(node: Node, topic: str) -> int:
    """The leader, as one node knows it."""
    with wire(node) as one:
        said = one.ask(ApiKey.METADATA, METADATA_VERSION, topics=[{"name": topic}])
    return int(said.topics[0].partitions[0].leader_id)


def end_of(node: Node, topic: str) -> int:
    """The offset after the last record that a leader has, also where no follower has it."""
    partition = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    with wire(node) as one:
        said = one.ask(ApiKey.LIST_OFFSETS, 1, replica_id=-2, topics=[{"name": topic, "partitions": [partition]}])
    return int(said.topics[0].partitions[0].offset)


def store(node: Node, topic: str, values: list[bytes]) -> None:
    """Directly at a leader, which may not know yet that it is one."""

    def is_stored(value: bytes) -> bool:
        with wire(node) as one:
            code = one.produce(PRODUCE, {topic: {0: build_batch([NewRecord(value, b"key")])}}, acks=1)[topic, 0].code
        assert code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return code == ErrorCode.NONE

    for value in values:
        eventually(lambda: is_stored(value), bool, f"{value!r} stored")  # noqa: B023


@pytest.mark.parametrize("others", OTHERS)
def test_a_carrier_whose_slices_are_lost_is_dropped_and_no_client_gets_other_bytes(
    three: Three, strict: Sidecar, readers: Mapping[str, Reader], others: str
) -> None:
    topic, between = three.topic(f"acked-{others}", max_message_bytes=str(LIMIT)), OTHERS[others]

    def moves_there_and_back(loss: Loss) -> None:
        loss.leader.stop()
        store(loss.led_by_another(), topic, between)
        loss.leader.cont()
        # It comes back believing that it leads; what it would take then is lost, too.
        end = 1 + len(between)
        eventually(lambda: [is_back(loss, end) for _ in range(STABLE)], all, "the leader leads for good", 90.0)

    store(three.cluster.node(leaders(three.cluster, topic)[0]), topic, [FIRST])
    eventually(lambda: len(three.stored(topic)), lambda count: count == 1, "the first record is on all brokers")
    loss = Loss(three, topic, moves_there_and_back)
    try:
        with three.faults(loss):
            (sent,) = librdkafka(three.sidecar.bootstrap, topic, [[LARGE]], NOT_IDEMPOTENT)
    finally:
        loss.heal()
    assert loss.acknowledged_end == 1 + SLICES
    carrier_at = 1 + len(between)
    assert (sent.error, sent.offset) == ("", carrier_at)
    assert librdkafka(three.sidecar.bootstrap, topic, [[AFTER], [LARGE]])[0].offset == carrier_at + 1
    values = [FIRST, *between, AFTER, LARGE]
    assert three.stored(topic)[: carrier_at + 2] == [FIRST, *between, LARGE[-1:], AFTER]

    dropped = three.metric("large_messages_dropped_total")
    for library in LIBRARIES:
        read = readers[library](three.sidecar.bootstrap, [topic], f"{topic}-{library}", Reading())
        assert [one.value for one in read.records] == values
        assert carrier_at not in [one.offset for one in read.records]
    assert three.metric("large_messages_dropped_total") >= dropped + len(LIBRARIES)
    logged = [line for line in three.lines() if line["message"] == "large message not assembled"]
    assert any(line["topic"] == topic and line["offset"] == carrier_at for line in logged)
    stands_still(strict, loss.leader, topic, carrier_at, values)


def stands_still(strict: Sidecar, leader: Node, topic: str, carrier_at: int, values: list[bytes]) -> None:
    """With ``on_missing: fail``: at the carrier, and nowhere else."""
    host, port = strict.bootstrap.split(":")
    with FetchWire(f"{host}:{int(port) + 1 + leader.id}") as one:
        one.introduce("tests")
        assert values_from(one, topic, 0, len(values) - 2) == values[:-2]
        for _ in range(2):
            assert one.fetch(NEWEST_FETCH, topic, carrier_at).code == ErrorCode.CORRUPT_MESSAGE
        assert values_from(one, topic, carrier_at + 1, 2) == values[-2:]


def values_from(one: FetchWire, topic: str, offset: int, count: int) -> list[bytes | None]:
    """So many values, or those that have come in time."""
    shown, deadline = list[bytes | None](), time.monotonic() + LIMIT_S
    while len(shown) < count and time.monotonic() < deadline:
        fetched = one.fetch(NEWEST_FETCH, topic, offset)
        assert fetched.code == ErrorCode.NONE
        shown += [value for at, value in fetched.shown() if at >= offset]
        offset = fetched.following or offset
    return shown


def test_a_message_that_is_lost_with_its_leader_leaves_nothing(three: Three, readers: Mapping[str, Reader]) -> None:
    """Slices and carrier are acknowledged, then the leader crashes: it was acknowledged, as any record would be."""
    topic = three.topic("acked-crashed", max_message_bytes=str(LIMIT))
    store(three.cluster.node(leaders(three.cluster, topic)[0]), topic, [FIRST])
    eventually(lambda: len(three.stored(topic)), lambda count: count == 1, "the first record is on all brokers")
    loss = Loss(three, topic, lambda _: None)
    try:
        with three.faults(loss):
            (sent,) = librdkafka(three.sidecar.bootstrap, topic, [[LARGE]], NOT_IDEMPOTENT)
        assert (sent.error, sent.offset) == ("", 1 + SLICES)
        loss.leader.kill()
        store(loss.led_by_another(), topic, [AFTER])
    finally:
        for node in loss.followers:
            node.cont()
        loss.leader.kill()
        loss.leader.start()
    assert eventually(lambda: three.stored(topic), lambda found: AFTER in found, "stored") == [FIRST, AFTER]
    for library in LIBRARIES:
        read = readers[library](three.sidecar.bootstrap, [topic], f"{topic}-{library}", Reading())
        assert [(one.offset, one.value) for one in read.records] == [(0, FIRST), (1, AFTER)]
