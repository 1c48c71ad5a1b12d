"""The topics of a Produce or Fetch request that may be truncated: a glance never raises, and agrees with the
decoder."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import sample, versions
from hypothesis import given
from hypothesis import strategies as some
from support import old_requests, oracle
from support.produce_requests import GOOD, produce_request, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, encode_request, open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_positions import NO_SESSION
from kafka_sidecar.codec.glance import glance_fetch, glance_produce
from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.codec.messages.produce import ProduceRequest

FIRST_WITH_SESSIONS, FIRST_WITH_IDS = 7, 13
Topics = tuple[str | bytes, ...]
each_produce = pytest.mark.parametrize("version", versions(ProduceRequest))
each_fetch = pytest.mark.parametrize("version", versions(FetchRequest))


def named(version: int, *names: str) -> Topics:
    return tuple(map(topic_id, names)) if version >= FIRST_WITH_IDS else names


def is_text(topic: str | bytes) -> bool:
    return isinstance(topic, bytes) or not any("\udc80" <= character <= "\udcff" for character in topic)


def produced(version: int, frame: bytes) -> Topics:
    """The topics of a Produce request, by the decoder. Raises CodecError."""
    _, opened = decode_request(ProduceRequest, frame)
    topics = opened.message.topic_data
    return tuple(topic.topic_id if version >= FIRST_WITH_IDS else topic.name for topic in topics)


def fetched(version: int, frame: bytes) -> tuple[int, Topics]:
    """The session's epoch and the topics of a Fetch request, by the decoder. Raises CodecError."""
    _, opened = decode_request(FetchRequest, frame)
    topics = opened.message.topics
    return opened.message.session_epoch, tuple(
        topic.topic_id if version >= FIRST_WITH_IDS else topic.topic for topic in topics
    )


@each_produce
def test_the_topics_of_a_produce_request_are_found_at_any_offset(version: int) -> None:
    for topics in (("orders",), ("orders", "free"), ("a", "b", "c"), ("", "ü")):
        frame = produce_request(version, {topic: {0: GOOD, 1: GOOD} for topic in topics})
        found, end = glance_produce(b"before" + frame + b"after", 6, len(frame), version)
        assert found == named(version, *topics)
        last = named(version, topics[-1])[0]
        name = last.encode() if isinstance(last, str) else last
        assert (b"before" + frame)[:end].endswith(name)


@each_produce
def test_a_truncated_produce_request_shows_its_topic_only_if_there_is_one(version: int) -> None:
    one, two = (
        produce_request(version, {"orders": {0: GOOD}}),
        produce_request(version, {"orders": {0: GOOD}, "free": {0: GOOD}}),
    )
    _, name_end = glance_produce(one, 0, len(one), version)
    for end in range(len(one)):
        known = (named(version, "orders"), name_end) if end >= name_end else ((), 0)
        assert glance_produce(one[:end], 0, len(one), version) == known
    for end in range(len(two)):
        assert glance_produce(two[:end], 0, len(two), version) == ((), 0)


@each_produce
def test_a_topic_name_is_not_read_beyond_the_end_of_the_request(version: int) -> None:
    frame = produce_request(version, {"orders": {0: GOOD}})
    _, end = glance_produce(frame, 0, len(frame), version)
    for size in range(end):
        assert glance_produce(frame, 0, size, version) == ((), 0)


def test_a_produce_request_without_topics_has_none() -> None:
    for version in versions(ProduceRequest):
        frame = produce_request(version, {})
        assert glance_produce(b"12" + frame, 2, len(frame), version) == ((), 2)


@given(seed=some.integers(0, 2**32), version=some.sampled_from(versions(ProduceRequest)))
def test_a_glance_at_a_produce_request_agrees_with_the_decoder(seed: int, version: int) -> None:
    random = Random(seed)
    frame = encode_request(sample(random, ProduceRequest, version), version, 5, "app")
    for data in (frame, spoilt(random, frame)):
        found, end = glance_produce(data, 0, len(data), version)
        assert 0 <= end <= len(data)
        try:
            topics = produced(version, data)
        except CodecError:
            continue
        assert found == (topics if all(map(is_text, topics)) else ())


def spoilt(random: Random, frame: bytes) -> bytes:
    """The frame with a corrupt body."""
    at = open_request(frame).body_at
    return frame[:at] + mutated(random, frame[at:], frame[at:])


@given(some.binary(max_size=80), some.sampled_from(versions(ProduceRequest)))
def test_random_bytes_after_a_header_never_raise(body: bytes, version: int) -> None:
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        for head in (b"", b"\0\2tx\0\1"):
            frame = oracle.framed(key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + head + body)
            found, end = glance_produce(frame, 0, len(frame), version)
            assert 0 <= end <= len(frame)
            assert all(isinstance(topic, str | bytes) for topic in found)
            glance_fetch(frame, 0, len(frame), version)


def fetching(version: int, topics: Sequence[str], epoch: int = -1, forgotten: Sequence[str] = ()) -> bytes:
    request: dict[str, Any] = {
        "replica_id": -1,
        "max_bytes": 1 << 20,
        "session_id": 99,
        "session_epoch": epoch,
        "rack_id": "here",
        "topics": [
            {"topic": name, "topic_id": topic_id(name), "partitions": [{"partition": 0, "fetch_offset": 5}] * at}
            for at, name in enumerate(topics)
        ],
        "forgotten_topics_data": [
            {"topic": name, "topic_id": topic_id(name), "partitions": [0, 3]} for name in forgotten
        ],
    }
    return oracle.request_frame(oracle.request(ApiKey.FETCH, version, **request), 7)


@each_fetch
@pytest.mark.parametrize("epoch", [-1, 0, 1, 2**31 - 1])
def test_topics_and_session_epoch_of_a_fetch_are_found_at_any_offset(version: int, epoch: int) -> None:
    frame = fetching(version, ["orders", "", "ü", "payments"], epoch, ["gone", "free"])
    for data, at in ((frame, 0), (b"before" + frame + b"after", 6)):
        found = glance_fetch(data, at, len(frame), version)
        assert found is not None
        assert found.topics == named(version, "orders", "", "ü", "payments")
        first = named(version, "orders")[0]
        assert data[: found.named_to].endswith(first.encode() if isinstance(first, str) else first)
        if version >= FIRST_WITH_SESSIONS:
            assert found.session_epoch == epoch == int.from_bytes(data[found.epoch_at :][:4], "big", signed=True)
            assert found.goes_on == (epoch > 0)
        else:
            assert (found.session_epoch, found.epoch_at, found.goes_on) == (NO_SESSION, 0, False)


@each_fetch
def test_a_fetch_without_topics_has_none(version: int) -> None:
    frame = fetching(version, [], 5)
    found = glance_fetch(frame, 0, len(frame), version)
    assert found is not None
    assert (found.topics, found.named_to) == ((), 0)


@each_fetch
def test_a_truncated_fetch_request_shows_nothing(version: int) -> None:
    frame = fetching(version, ["orders", "payments"], 0)
    for end in range(len(frame)):
        assert glance_fetch(frame[:end], 0, len(frame), version) is None


@each_fetch
def test_an_invalid_short_fetch_request_does_not_raise(version: int) -> None:
    frame = fetching(version, ["orders", "payments"], 0)
    for end in range(8, len(frame)):
        glance_fetch(frame[:end], 0, end, version)


@given(seed=some.integers(0, 2**32), version=some.sampled_from(versions(FetchRequest)))
def test_a_glance_at_a_fetch_request_agrees_with_the_decoder(seed: int, version: int) -> None:
    random = Random(seed)
    request = sample(random, FetchRequest, version)
    frame = encode_request(replace_fields(request, session_epoch=random.choice((-1, 0, 7))), version, 5, None)
    for data in (frame, spoilt(random, frame)):
        found = glance_fetch(data, 0, len(data), version)
        try:
            epoch, topics = fetched(version, data)
        except CodecError:
            continue
        if not all(map(is_text, topics)):
            assert found is None
        else:
            assert found is not None
            assert (found.session_epoch, found.topics) == (epoch, topics)


@pytest.mark.parametrize("version", range(4))
def test_topics_of_a_fetch_are_found_in_versions_that_kafka_4_dropped(version: int) -> None:
    frame = old_requests.fetch_request(version, {("orders", 0): 5, ("payments", 3): 7})
    found = glance_fetch(b"before" + frame + b"after", 6, len(frame), version)
    assert found is not None
    assert (found.topics, found.session_epoch, found.goes_on) == (("orders", "payments"), NO_SESSION, False)
    for end in range(len(frame)):
        assert glance_fetch(frame[:end], 0, len(frame), version) is None


def test_a_fetch_of_a_version_that_does_not_exist_is_not_read() -> None:
    frame = fetching(11, ["orders"])
    assert glance_fetch(frame, 0, len(frame), 19) is None
