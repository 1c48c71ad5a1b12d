"""What is missing, hidden to the end, or read from anywhere: large messages through the sidecar."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from integration.front import Front
from integration.interception.batches import send
from integration.interception.reads import How, Reader
from integration.interception.wire import CONTROL, FetchWire
from integration.large_messages.live_tail import ends_of_tail
from integration.large_messages.written_logs import topic_id, write
from integration.scenarios.target import LIMIT_S
from support.large_logs import Log, message_id, sliced

pytestmark = pytest.mark.integration

LIBRARIES = ("java", "librdkafka", "aiokafka", "kafka-python")
VALUE = bytes(range(256)) * 100
NEWEST_FETCH, OLD_FETCH = 18, 10
CORRUPT_MESSAGE = 2


def two_messages(id_: bytes) -> Log:
    """first, 1 to 10: a message, 11 to 20: another one, last."""
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 10, 1, topic_id=id_)
    log.add_large(VALUE[::-1], 10, 2, topic_id=id_)
    log.add(b"last")
    return log


SHOWN = [(0, b"first"), (10, VALUE), (20, VALUE[::-1]), (21, b"last")]


def make(large: Front, topic: str) -> str:
    large.topic(topic)
    return write(large, topic, two_messages(topic_id(large, topic)))


def delete_before(large: Front, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": large.cluster.direct})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(LIMIT_S)


@pytest.mark.parametrize("version", [4, 12, 13, NEWEST_FETCH])
def test_a_fetch_from_any_offset_gets_what_is_visible_from_there_on(large: Front, version: int) -> None:
    topic = make(large, f"large-anywhere-{version}")
    with FetchWire(large.sidecar.bootstrap) as wire:
        wire.introduce("tests")
        for start in range(22):
            for max_bytes in (1, 1 << 20):
                offset, shown = start, list[tuple[int, bytes | None]]()
                while offset < 22:
                    fetched = wire.fetch(version, topic, offset, max_bytes=max_bytes)
                    assert fetched.code == 0
                    shown += [one for one in fetched.shown() if one[0] >= offset]
                    assert fetched.following is not None
                    offset = fetched.following
                assert shown == [one for one in SHOWN if one[0] >= start]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_message_whose_slices_are_deleted_is_dropped_and_consumers_go_on(
    large: Front, readers: Mapping[str, Reader], library: str
) -> None:
    topic = make(large, f"large-deleted-{library}")
    delete_before(large, topic, 5)
    dropped = large.metric("large_messages_dropped_total")
    read = readers[library](large.sidecar.bootstrap, [topic], f"{topic}-group", How())
    assert [(one.offset, one.value) for one in read.records] == SHOWN[2:]
    assert read.positions == {(topic, 0): 22}
    assert large.metric("large_messages_dropped_total") > dropped
    assert any(line["message"] == "large message not assembled" for line in large.lines())


def test_or_consumers_stand_still_there(large: Front) -> None:
    topic = make(large, "fail-deleted")
    delete_before(large, topic, 5)
    with FetchWire(large.sidecar.bootstrap) as wire:
        wire.introduce("tests")
        before = wire.fetch(NEWEST_FETCH, topic, 5)
        assert (before.code, before.shown(), before.following) == (0, [], 10)
        for _ in range(2):
            assert wire.fetch(NEWEST_FETCH, topic, 10).code == CORRUPT_MESSAGE
        assert wire.fetch(NEWEST_FETCH, topic, 11).shown() == SHOWN[2:]


def test_a_live_tail_of_slices_is_no_error_and_the_position_goes_on(large: Front) -> None:
    topic = large.topic("large-tail")
    ends = ends_of_tail(large, topic, VALUE, 26, **{"auto.offset.reset": "earliest", "fetch.wait.max.ms": 50})
    assert ends[-1] == 25


def test_a_client_that_shows_markers_gets_none_and_all_messages(large: Front) -> None:
    topic = make(large, "large-held")
    for data in sliced(VALUE, 16, message_id(3)):
        log = Log(end=large_end(large, topic))
        log.append(data)
        write(large, topic, log)
    offset, shown, requests = 0, list[tuple[int, bytes | None]](), 0
    while len(shown) < len(SHOWN):
        with FetchWire(large.sidecar.bootstrap) as wire:  # a new connection each time
            fetched = wire.fetch(OLD_FETCH, topic, offset, max_bytes=1)
        assert not any(attributes & CONTROL for _, attributes, *_ in fetched.batches())
        shown += [one for one in fetched.shown() if one[0] >= offset]
        offset, requests = max((at + 1 for at, _ in fetched.shown()), default=offset), requests + 1
        assert requests < 40
    assert shown == SHOWN
    with FetchWire(large.sidecar.bootstrap) as wire:
        for _ in range(3):
            assert wire.fetch(OLD_FETCH, topic, offset, max_bytes=1).records == b""
        send(large.cluster.direct, topic, [[b"after"]])
        assert wire.fetch(OLD_FETCH, topic, offset, 2000).shown()[-1][1] == b"after"


def large_end(large: Front, topic: str) -> int:
    with FetchWire(large.cluster.direct) as wire:
        return wire.fetch(12, topic, 0).high_watermark


def test_sessions_of_several_partitions_get_each_message_once(large: Front, readers: Mapping[str, Reader]) -> None:
    topic = large.topic("large-partitions", partitions=4)
    id_ = topic_id(large, topic)
    for partition in range(4):
        write(large, topic, two_messages(id_), partition)
    for library in LIBRARIES:
        read = readers[library](large.sidecar.bootstrap, [topic], f"{topic}-{library}", How(fetch_bytes=3000))
        for partition in range(4):
            assert [(one.offset, one.value) for one in read.of(topic, partition)] == SHOWN
            assert read.positions[topic, partition] == 22


def test_what_is_read_in_addition_is_what_is_missing(large: Front) -> None:
    topic = make(large, "large-reads")
    before = large.metrics("large_messages_reads_total", "large_messages_read_bytes_total")
    with FetchWire(large.sidecar.bootstrap) as wire:
        wire.introduce("tests")
        assert wire.fetch(NEWEST_FETCH, topic, 10, max_bytes=1).shown() == SHOWN[1:2]
        time.sleep(1.1)  # the page of metrics is of this second
        reads, size = large.metrics("large_messages_reads_total", "large_messages_read_bytes_total")
        assert reads - before[0] == 1
        assert len(VALUE) < size - before[1] < 1.2 * len(VALUE)
        assert wire.fetch(NEWEST_FETCH, topic, 10, max_bytes=1).shown() == SHOWN[1:2]
        time.sleep(1.1)
        assert large.metric("large_messages_reads_total") == reads
