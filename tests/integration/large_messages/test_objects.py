"""Values in an object store: plain clients on both sides, a real broker between."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from integration.large_messages.groups import CLIENTS, Groups
from integration.large_messages.stepped import offsets, value
from integration.scenarios.target import LIMIT_S, SILENT

pytestmark = pytest.mark.integration
VALUES = (b"small", b"a" * 3_000_000, b"b" * 100_000, b"c" * 5_000_000)


def produce(groups: Groups) -> str:
    topic, errors = groups.new_topic("object", partitions=1), list[object]()
    producer = Producer(
        {"bootstrap.servers": groups.sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 20_000_000}
    )
    for one in VALUES:
        producer.produce(topic, one, b"k", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * len(VALUES)
    return topic


@pytest.mark.parametrize("name", CLIENTS)
def test_large_values_are_objects_and_every_client_gets_them_whole(groups: Groups, name: str) -> None:
    topic = produce(groups)
    lines = groups.clients[name](groups.place(topic), "rest")
    assert offsets(lines) == [0, 1, 2, 3]
    assert [value(line) for line in lines[:-1]] == [*VALUES]
    stored = groups.stored(topic)
    assert [len(one or b"") for one in stored] == [5, len(topic) + 33, 100_000, len(topic) + 33]
    objects = {path.relative_to(groups.objects).as_posix().encode(): path for path in groups.objects.glob(f"{topic}/*")}
    assert {*objects} == {one for one in stored if one is not None and one.startswith(b"object-")}


def test_a_message_whose_object_is_deleted_is_not_delivered(groups: Groups) -> None:
    topic = produce(groups)
    deleted = groups.stored(topic)[1] or b""
    (groups.objects / deleted.decode()).unlink()
    lines = groups.clients["librdkafka"](groups.place(topic), "rest")
    assert offsets(lines) == [0, 2, 3]
    assert groups.metric('large_messages_dropped_total{reason="missing"}') >= 1
