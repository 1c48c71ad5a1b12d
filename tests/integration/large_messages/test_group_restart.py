"""Groups that are restarted after each record, and what Kafka's own tool says of their lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from harness.sidecar import Sidecar
from integration.large_messages.groups import CLIENTS, CONFIG, Groups
from integration.large_messages.li_log import VISIBLE, LiProducer, Part
from integration.large_messages.stepped import Stepped, offsets, value
from integration.scenarios.target import LIMIT_S, SILENT, eventually

pytestmark = pytest.mark.integration
MAX_MESSAGE_BYTES = 2000
SIZES = (10, 9000, 20, 30, 7000, 8000, 40)  # of the values
ENDS = (0, 6, 7, 8, 13, 19, 20)  # their offsets


@pytest.fixture(params=CLIENTS)
def client(groups: Groups, request: pytest.FixtureRequest) -> Stepped:
    return groups.clients[request.param]


@pytest.fixture(scope="module")
def sent(groups: Groups) -> tuple[str, Sequence[bytes]]:
    """A topic with small and large messages that were produced through the sidecar, and these."""
    topic = groups.new_topic(partitions=1, max_message_bytes=str(MAX_MESSAGE_BYTES))
    messages = [bytes([65 + index]) * size for index, size in enumerate(SIZES)]
    produced = list[int]()
    producer = Producer({"bootstrap.servers": groups.sidecar.bootstrap, "logger": SILENT})
    for message in messages:
        producer.produce(topic, message, b"k", 0, on_delivery=lambda error, one: produced.append(one.offset() or 0))
        assert producer.flush(LIMIT_S) == 0
    assert produced == [*ENDS]
    return topic, messages


@pytest.mark.parametrize("is_member", [False, True], ids=["manual", "auto"])
def test_a_group_that_is_restarted_after_each_record_gets_each_once(
    groups: Groups, sent: tuple[str, Sequence[bytes]], client: Stepped, is_member: bool
) -> None:
    topic, messages = sent
    place = replace(groups.place(topic), is_member=is_member)
    steps = ("poll",) if is_member else ("poll", "commit")
    seen = [line for _ in messages for line in client(place, *steps)]
    assert offsets(seen) == [*ENDS]
    assert [value(line) for line in seen] == messages
    assert groups.stored_offset(place) == (21, "")


def test_kafkas_tool_shows_the_same_lag_with_and_without_the_sidecar(
    groups: Groups, sent: tuple[str, Sequence[bytes]]
) -> None:
    """Offsets of slices count; messages that are not interleaved are stored as they are committed."""
    place, client = groups.place(sent[0]), groups.clients["librdkafka"]
    for end in ENDS[::2]:
        client(place, f"commit {end + 1}")
        for bootstrap in (groups.cluster.direct, groups.sidecar.bootstrap):
            assert groups.lag(bootstrap, place) == (end + 1, 20 - end)


def test_two_consumers_that_change_their_subscriptions_get_each_message_once(groups: Groups) -> None:
    """li 44: with automatic commits, while messages of both topics are interleaved."""
    topics = [groups.syn(), groups.syn()]
    group = groups.place(topics[0]).group
    members = [_member(groups, group) for _ in range(2)]
    seen = list[tuple[str, int]]()
    try:
        for turn in range(6):
            for index, member in enumerate(members):
                member.subscribe([topics[(turn + index) % 2]])
            _take(members, seen, 1)
        for member in members:
            member.subscribe(topics)
        wanted = {(topic, offset) for topic in topics for offset in VISIBLE}
        eventually(lambda: _take(members, seen, 4), lambda _: {*seen} == wanted, "all messages")
    finally:
        for member in members:
            member.close()
    assert len(seen) == len({*seen})


@pytest.mark.parametrize("is_member", [False, True], ids=["manual", "auto"])
def test_the_lag_of_a_group_that_has_read_all_through_two_sidecars_ends_at_0(
    groups: Groups, tmp_path: Path, is_member: bool
) -> None:
    """One has seen the slice of a message, the other one the record that completes it."""
    config = tmp_path / "sidecar.yaml"
    config.write_text(CONFIG.replace("OBJECTS", str(tmp_path)))
    topic, flags = groups.new_topic(partitions=1), ["--config", str(config)]
    place, producer = replace(groups.place(topic), is_member=is_member), LiProducer(groups.cluster.direct, topic)
    with Sidecar.start(groups.cluster.bootstrap, tmp_path / "sidecar.log", flags) as other:
        for number, bootstrap in enumerate((groups.sidecar.bootstrap, other.bootstrap) * 4):
            # Each begins a message that the next one completes; one more is never complete.
            producer.write([0, Part(number, 0), *([Part(number - 1, 1)] if number else [Part(99, 0)]), 7])
            client = groups.clients["librdkafka"]
            lines = client(replace(place, bootstrap=bootstrap), "rest", *([] if is_member else ["commit"]))
            end = 4 * (number + 1)
            assert lines[-1] == f"end\t{end}"
            assert groups.stored_offset(place) == (end, "") or groups.stored_offset(place)[1] == f"{end},"
        producer.write([Part(number, 1), 8])
        client(place, "rest", *([] if is_member else ["commit"]))
    assert groups.stored_offset(place) == (end + 2, "")
    for bootstrap in (groups.cluster.direct, groups.sidecar.bootstrap):
        assert groups.lag(bootstrap, place) == (end + 2, 0)


def _member(groups: Groups, group: str) -> Consumer:
    settings: Mapping[str, str | int | bool] = {
        "bootstrap.servers": groups.sidecar.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": True, "auto.commit.interval.ms": 100, "session.timeout.ms": 6000,
    }  # fmt: skip
    return Consumer(dict(settings), logger=SILENT)


def _take(members: Sequence[Consumer], seen: list[tuple[str, int]], count: int) -> None:
    """A few records of each; what it has taken it has processed."""
    for member in members:
        for message in member.consume(count, timeout=0.3):
            assert message.error() is None
            if message.partition() == 0:
                seen.append((str(message.topic()), message.offset() or 0))
