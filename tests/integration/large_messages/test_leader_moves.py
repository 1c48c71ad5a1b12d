"""Three brokers whose leaders move or crash in the middle of a large message: each is stored once, and whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import pytest
from harness.fault_proxy import Fault
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.interception.outages import outages
from integration.large_messages.senders import LIBRARIES, Sent, senders
from integration.large_messages.three import Three, three_brokers
from integration.large_messages.traffic import RULES, Kind, Reading, Sending, Value, after_position
from integration.large_messages.written_logs import PRODUCE
from integration.partitions import leaders, move
from integration.scenarios.target import eventually
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.records import NewRecord, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

# Every tenth message is one of 3 MB, every fiftieth one of 20 MB: they are nearly all of the bytes.
NUMBERS = range(0, 3000, 10)
TURNS = ([2, 3, 1], [3, 1, 2], [1, 2, 3])
LIMIT = 20_000
SMALL, LARGE = b"small", os.urandom(90_000)
SLICES = -(-(len(LARGE) - 1) // (LIMIT - 108))  # of LARGE
SENT_BEFORE = 2  # slices that the leader has got before it loses the partition
MIXED = [b"1", LARGE, b"3"]
NOT_ENOUGH_REPLICAS = 19


@pytest.fixture(scope="module")
def three(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    with three_brokers(tmp_path_factory.mktemp("three"), RULES, java) as front:
        yield front


def led_by_the_next(front: Three, topic: str) -> None:
    (leader,) = leaders(front.cluster, topic)
    move(front.cluster, front.java[NEWEST], topic, [TURNS[leader - 1]])


def crash_of_the_leader(front: Three, topic: str) -> None:
    node = front.cluster.node(leaders(front.cluster, topic)[0])
    node.kill()
    node.start()


CHANGES: Mapping[str, Callable[[Three, str], None]] = {"move": led_by_the_next, "crash": crash_of_the_leader}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["idempotent", "transactional"])
def test_each_message_is_read_once_and_whole_after_leaders_have_changed(three: Three, kind: Kind, change: str) -> None:
    topic = three.topic(f"out-{kind}-{change}")
    reading = Reading(three.sidecar.bootstrap, topic, len(NUMBERS))
    sending = Sending(three.sidecar.bootstrap, topic, kind, NUMBERS)
    reading.start()
    quarters = [len(NUMBERS) * part // 4 for part in (1, 2, 3)]
    with outages(lambda: sending.stored, quarters, lambda: CHANGES[change](three, topic)):
        sending.run()
    reading.join()

    assert [value.number for value in reading.found] == list(NUMBERS)
    assert after_position(three.cluster.direct, topic) == [Value(NUMBERS[-1]).build()]
    assert len({message.leader_epoch() for message in three.log(topic)}) > 1  # of records of one producer


class Moment:
    """A fault: the leader of a topic changes before it gets a frame, the first for which ``is_now`` is true."""

    def __init__(self, three: Three, topic: str, is_now: Callable[[bytes], Fault | bool]) -> None:
        self._three, self._topic, self._is_now = three, topic, is_now
        self.leader = leaders(three.cluster, topic)[0]  # before
        self.crashes = False
        self.has_come = False

    def __call__(self, frame: bytes) -> Fault | None:
        if self.has_come or b"_lm" not in frame:
            return None
        found = self._is_now(frame)
        if isinstance(found, Fault) or not found:
            return found or None
        self.has_come = True
        if self.crashes:
            self._three.cluster.node(self.leader).kill()
            return Fault.BEFORE
        led_by_the_next(self._three, self._topic)
        return None


def is_carrier(frame: bytes) -> bool:
    return b"_lmr" in frame


def third_slice() -> Callable[[bytes], bool]:
    seen: list[bytes] = []

    def is_now(frame: bytes) -> bool:
        seen.append(frame)
        return len(seen) > SENT_BEFORE

    return is_now


def after_a_lost_response() -> Callable[[bytes], Fault | bool]:
    """The carrier is stored, and its response lost; the leader changes at the first slice of the retry."""
    carriers: list[bytes] = []

    def is_now(frame: bytes) -> Fault | bool:
        if carriers:
            return True
        if is_carrier(frame):
            carriers.append(frame)
            return Fault.AFTER
        return False

    return is_now


# When, and how many slices are left over then.
MOMENTS: Mapping[str, tuple[Callable[[], Callable[[bytes], Fault | bool]], int]] = {
    "slices": (third_slice, SENT_BEFORE),
    "carrier": (lambda: is_carrier, SLICES),
    "retry": (after_a_lost_response, SLICES),
}


@pytest.mark.parametrize("at", MOMENTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_message_that_a_move_has_interrupted_is_stored_once_at_the_acknowledged_offset(
    three: Three, library: str, at: str
) -> None:
    topic = three.topic(f"out-{library}-{at}", max_message_bytes=str(LIMIT))
    build, orphans = MOMENTS[at]
    moment = Moment(three, topic, build())
    with three.faults(moment):
        sent = senders(three.java)[library](three.sidecar.bootstrap, topic, [[SMALL], MIXED, [SMALL]])
    assert moment.has_come
    assert leaders(three.cluster, topic) != [moment.leader]
    check(three, topic, sent, orphans)


@pytest.mark.parametrize("library", LIBRARIES)
def test_so_is_one_whose_leader_has_crashed_before_the_carrier(three: Three, library: str) -> None:
    topic = three.topic(f"out-{library}-crashed", max_message_bytes=str(LIMIT))
    moment = Moment(three, topic, is_carrier)
    moment.crashes = True
    try:
        with three.faults(moment):
            sent = senders(three.java)[library](three.sidecar.bootstrap, topic, [[SMALL], MIXED, [SMALL]])
    finally:
        if moment.has_come:
            three.cluster.node(moment.leader).start()
    assert moment.has_come
    check(three, topic, sent, SLICES)
    eventually(lambda: three.sidecar.is_ready(), bool, "all brokers are back")


def check(three: Three, topic: str, sent: list[Sent], orphans: int) -> None:
    found = three.assembled(topic)
    assert found.values == [SMALL, *MIXED, SMALL]
    assert [Sent(record.offset) for record in found.records] == sent
    assert found.orphans == orphans


def test_the_codes_of_replicas_that_do_not_follow_are_those_of_slices_too(three: Three) -> None:
    topic = three.topic("out-replicas", max_message_bytes=str(LIMIT), min_insync_replicas="3")
    (leader,) = leaders(three.cluster, topic)
    records = build_batch([NewRecord(SMALL), NewRecord(LARGE)])

    def produce() -> int:
        # The node's own listener: a bootstrap connection may lead to another broker.
        host, port = three.sidecar.bootstrap.split(":")
        with Wire(f"{host}:{int(port) + 1 + leader}") as wire:
            data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
            said = wire.ask(ApiKey.PRODUCE, PRODUCE, acks=-1, timeout=timedelta(seconds=1), topic_data=data)
            return int(said.responses[0].partition_responses[0].error_code)

    assert produce() == 0
    follower = three.cluster.node(TURNS[leader - 1][0])
    follower.stop()
    try:
        assert produce() == ErrorCode.REQUEST_TIMED_OUT
        eventually(produce, lambda code: code == NOT_ENOUGH_REPLICAS, "the broker misses a replica")
    finally:
        follower.cont()
    eventually(produce, lambda code: code == 0, "all replicas follow")
