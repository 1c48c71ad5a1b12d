"""From which offsets a Fetch request reads."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import versions
from hypothesis import given
from hypothesis import strategies as some
from support import oracle
from support.fetches import fetch_request
from support.kio_messages import kios_class, random_entity
from support.produce_requests import topic_id

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_positions import MAX_SCANNED, UNKNOWN, FetchPositions, Offsets
from kafka_sidecar.codec.messages.fetch import FetchRequest

FIRST_WITH_IDS, FIRST_WITH_SESSIONS = 13, 7
LAST = 0x123456789ABCDEF
each_version = pytest.mark.parametrize("version", versions(FetchRequest))


def read(version: int, frame: bytes) -> FetchPositions:
    found = FetchPositions(version)
    found.read(b"before" + frame + b"after", 6, 6 + len(frame))
    return found


@each_version
def test_requests_are_read_as_kio_writes_them(version: int) -> None:
    random = Random(version)
    for _ in range(30):
        entity = random_entity(random, kios_class(FetchRequest, version))
        found = read(version, oracle.request_frame(entity, 7))
        assert found.isolation_level == entity.isolation_level
        asked: dict[Any, int] = {}
        for topic in entity.topics:
            for one in topic.partitions:
                asked.setdefault((_key(topic, version), one.partition), one.fetch_offset)
        assert {partition: found.offsets.get(*partition) for partition in asked} == asked
        if version >= FIRST_WITH_SESSIONS:
            assert (found.session_id, found.session_epoch) == (entity.session_id, entity.session_epoch)
            assert found.forgotten == [
                (_key(topic, version), index) for topic in entity.forgotten_topics_data for index in topic.partitions
            ]
        else:
            assert (found.session_id, found.session_epoch, found.forgotten) == (0, -1, [])


@each_version
def test_the_request_of_a_consumer_is_read_as_kio_writes_it(version: int) -> None:
    found = FetchPositions(version)
    topics = {"orders": {0: 10, 7: 1 << 40}, "free": {3: 30}}
    for shift in range(3):
        asked = {name: {at: offset + shift for at, offset in one.items()} for name, one in topics.items()}
        frame = fetch_request(version, asked, isolation_level=1, epoch=shift, session=99)
        found.read(b"x" + frame + b"y", 1, 1 + len(frame))
        assert found.isolation_level == (1 if version >= 4 else 0)
        if version >= FIRST_WITH_SESSIONS:
            assert (found.session_id, found.session_epoch) == (99, shift)
            assert int.from_bytes(frame[found.epoch_at - 1 : found.epoch_at + 3], "big") == shift
        assert found.offsets.size == 3
        for name, one in asked.items():
            key = topic_id(name) if version >= FIRST_WITH_IDS else name
            assert [found.offsets.get(key, index) for index in one] == list(one.values())
            assert found.offsets.get(key, 99) == UNKNOWN


@each_version
def test_hostile_requests_raise_codec_error_or_are_read(version: int) -> None:
    random = Random(version)
    frame = fetch_request(version, {"orders": {0: 10, 1: 20}, "free": {0: 30}})
    found = FetchPositions(version)
    for _ in range(300):
        bad = mutated(random, frame, frame[::-1])
        try:
            found.read(bad, 0, len(bad))
        except CodecError:
            continue


@each_version
def test_a_request_that_ends_before_its_last_offset_is_an_error(version: int) -> None:
    frame = fetch_request(version, {"orders": {0: 10, 1: LAST}})
    found = FetchPositions(version)
    for end in range(frame.index(LAST.to_bytes(8)) + 8):
        with pytest.raises(CodecError):
            found.read(frame, 0, end)


ITEMS = some.dictionaries(some.tuples(some.sampled_from(["a", "b", b"i" * 16]), some.integers(0, 120)), some.integers())
OFFSETS = ITEMS.map(lambda items: {key: abs(offset) % (1 << 62) for key, offset in items.items()})


@given(some.lists(OFFSETS, min_size=1, max_size=4), some.data())
def test_later_requests_change_the_offsets_that_they_name(requests: list[dict[Any, int]], data: Any) -> None:
    expected: dict[Any, int] = {}
    session, named = Offsets(), Offsets()
    for request in requests:
        named.clear()
        for (key, index), offset in request.items():
            named.add(key, index, offset)
        session.update(named)
        expected.update(request)
        for key, index in data.draw(some.permutations(list(expected))):
            assert session.get(key, index) == expected[key, index]
    assert session.size == len(expected)
    if expected:
        gone = data.draw(some.sampled_from(list(expected)))
        session.forget(*gone)
        assert session.get(*gone) == UNKNOWN


def test_many_partitions_are_found_in_any_order() -> None:
    many = Offsets()
    for index in range(MAX_SCANNED * 3):
        many.add("orders", index, index + 5)
        assert many.get("orders", index // 2) == index // 2 + 5
    assert [many.get("orders", index) for index in reversed(range(MAX_SCANNED * 3))] == [
        index + 5 for index in reversed(range(MAX_SCANNED * 3))
    ]
    assert many.get("other", 0) == UNKNOWN


def _key(topic: Any, version: int) -> str | bytes:
    if version < FIRST_WITH_IDS:
        return str(topic.topic)
    return topic.topic_id.bytes if topic.topic_id is not None else bytes(16)
