"""li's tests of what is produced and consumed, with plain clients through the sidecar on both sides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pytest
from confluent_kafka import KafkaError, Message, Producer
from integration.large_messages.groups import Groups
from integration.large_messages.li_log import Format, LiProducer, Part, value
from integration.large_messages.stepped import headers, offsets
from integration.large_messages.stepped import value as value_of
from integration.scenarios.target import LIMIT_S, SILENT

from kafka_sidecar.large_messages.lm_header import DELIVERED_NUMBER, LEGACY_V2, V3, LmHeader

pytestmark = pytest.mark.integration
MAX_MESSAGE_BYTES = "1500"
Header = tuple[str, str | bytes | None]


def produce(groups: Groups, topic: str, values: Iterable[bytes], kept: Sequence[Header] = ()) -> list[tuple[int, int]]:
    """Through the sidecar, some in one batch; partition and offset of each."""
    done = list[tuple[int, int]]()

    def delivered(error: KafkaError | None, sent: Message) -> None:
        partition, offset = sent.partition(), sent.offset()
        assert error is None
        assert partition is not None
        assert offset is not None
        done.append((partition, offset))

    producer = Producer({
        "bootstrap.servers": groups.sidecar.bootstrap, "logger": SILENT, "acks": "all", "batch.num.messages": 5,
    })  # fmt: skip
    for index, one in enumerate(values):
        producer.produce(topic, one, str(index).encode(), headers=[*kept], on_delivery=delivered)
    assert producer.flush(LIMIT_S) == 0
    return done


def read(groups: Groups, topic: str, partition: int = 0) -> list[str]:
    """All records, read through the sidecar."""
    lines = groups.clients["librdkafka"](groups.place(topic, partition=partition), "rest")
    return lines[:-1]


def test_both_formats_interleaved_are_delivered_with_the_headers_of_li(groups: Groups) -> None:
    """li 14, 15: delivered are 0, 2, 4 and 5; the safe offset 1 is shown at 2 and 4."""
    topic = groups.new_topic("headers")
    producer = LiProducer(groups.cluster.direct, topic)
    producer.write([0, Part(1, 0), 2], form="v3")
    producer.write([Part(3, 0), Part(3, 1)], form="payload")
    producer.write([Part(1, 1)], form="v3")
    lines = read(groups, topic)
    assert offsets(lines) == [0, 2, 4, 5]
    assert [value_of(line) for line in lines] == [b"M0", b"M2", value(3), value(1)]
    safe = ("_so", b"\0\0\0\0\0\0\0\1")
    assert [safe in headers(line) for line in lines] == [False, True, True, False]
    for line, kind, number in ((lines[2], LEGACY_V2, 3), (lines[3], V3, 1)):
        (delivered,) = (LmHeader.decode(content) for name, content in headers(line) if name == "_lm")
        assert delivered == LmHeader(kind, bytes(16), DELIVERED_NUMBER, 2, len(value(number)))


@pytest.mark.parametrize("form", ["v3", "payload", "payload without header"])
def test_messages_of_li_are_delivered_in_each_of_its_formats(groups: Groups, form: Format) -> None:
    lines = read(groups, groups.syn(form=form))
    assert offsets(lines) == [2, 4, 5, 6, 7, 9]
    assert value_of(lines[1]) == value(1)


def test_null_stays_null_and_what_is_empty_stays_empty(groups: Groups) -> None:
    """li 5, 21, 22; bytes that look a little like a segment are an ordinary value."""
    topic = groups.new_topic("headers")
    LiProducer(groups.cluster.direct, topic).write([None, Part(0, 0), Part(0, 1)])
    produce(groups, topic, [b"", bytes(100)])
    lines = [line for partition in range(2) for line in read(groups, topic, partition)]
    found = [value_of(line) for line in lines]
    assert sorted(found, key=str) == sorted([None, value(0), b"", bytes(100)], key=str)


def test_many_small_records_all_arrive(groups: Groups) -> None:
    """li 24, 25: 1000 with acks=all, each acknowledged once."""
    topic = groups.new_topic(partitions=1, max_message_bytes=MAX_MESSAGE_BYTES)
    values = [b"%d" % index for index in range(1000)]
    assert sorted(produce(groups, topic, values)) == [(0, index) for index in range(1000)]
    assert [value_of(line) for line in read(groups, topic)] == values


def test_many_large_messages_arrive_whole_in_their_partitions_with_their_time(groups: Groups) -> None:
    """li 26, 29: 100 of them in three partitions, each acknowledged once, with its own offset."""
    topic, began = (
        groups.new_topic("headers", partitions=3, max_message_bytes=MAX_MESSAGE_BYTES),
        int(time.time() * 1000),
    )
    values = [bytes([index]) * 3032 for index in range(100)]
    sent = produce(groups, topic, values)
    assert len({*sent}) == len(values)
    lines = {(at, offset): line for at in range(3) for line in read(groups, topic, at) for offset in offsets([line])}
    assert {*lines} == {*sent}
    assert sorted(value_of(line) or b"" for line in lines.values()) == values
    for line in lines.values():
        found = dict(headers(line))
        assert began <= int.from_bytes(found["_t"], "big") <= time.time() * 1000
        delivered = LmHeader.decode(found["_lm"])
        assert (delivered.type, delivered.number, delivered.size) == (V3, DELIVERED_NUMBER, 3032)
        assert "_lmr" not in found


def test_the_time_of_a_record_survives_when_it_is_produced_again(groups: Groups) -> None:
    """li 28: to another topic, with the headers that the consumer has got."""
    topics = [groups.new_topic("headers", partitions=1, max_message_bytes=MAX_MESSAGE_BYTES) for _ in range(2)]
    produce(groups, topics[0], [b"x" * 5000, b"small"])
    first = read(groups, topics[0])
    for line in first:
        produce(groups, topics[1], [value_of(line) or b""], [*headers(line)])
    again = read(groups, topics[1])
    assert [value_of(line) for line in again] == [b"x" * 5000, b"small"]
    for one, other in zip(first, again, strict=True):
        assert dict(headers(one))["_t"] == dict(headers(other))["_t"]
        assert len(headers(one)) == len(headers(other))
