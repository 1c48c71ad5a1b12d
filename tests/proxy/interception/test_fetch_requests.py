"""A look at Fetch requests that kio has written, at those that are cut off and at noise: it never raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.interception.fetch_requests import FIRST_WITH_IDS, FIRST_WITH_SESSIONS, OLDEST, Glance, glance

FEWER = settings(max_examples=settings().max_examples // 2)
VERSIONS = range(OLDEST, 19)
each_version = pytest.mark.parametrize("version", VERSIONS)


def fetching(version: int, topics: Sequence[str], epoch: int = -1, forgotten: Sequence[str] = ()) -> bytes:
    request: dict[str, Any] = {
        "replica_id": -1, "max_bytes": 1 << 20, "session_id": 99, "session_epoch": epoch, "rack_id": "here",
        "topics": [
            {"topic": name, "topic_id": topic_id(name), "partitions": [{"partition": 0, "fetch_offset": 5}] * at}
            for at, name in enumerate(topics)
        ],
        "forgotten_topics_data": [
            {"topic": name, "topic_id": topic_id(name), "partitions": [0, 3]} for name in forgotten
        ],
    }  # fmt: skip
    return oracle.request_frame(oracle.request(ApiKey.FETCH, version, **request), 7)


def named(version: int, *names: str) -> tuple[str | bytes, ...]:
    return tuple(topic_id(name) if version >= FIRST_WITH_IDS else name for name in names)


def seen(version: int, data: bytes, at: int, size: int) -> tuple[int, tuple[str | bytes, ...]] | None:
    found = glance(version, data, at, size)
    return None if found is None else (found.session_epoch, found.topics)


@each_version
@pytest.mark.parametrize("epoch", [-1, 0, 1, 2**31 - 1])
def test_topics_and_the_epoch_of_the_session_are_found_wherever_the_request_stands(version: int, epoch: int) -> None:
    frame = fetching(version, ["orders", "", "ü", "payments"], epoch, ["gone", "free"])
    want = epoch if version >= FIRST_WITH_SESSIONS else -1, named(version, "orders", "", "ü", "payments")
    assert seen(version, frame, 0, len(frame)) == want
    assert seen(version, b"before" + frame + b"behind", 6, len(frame)) == want


@each_version
def test_a_request_without_topics_has_none(version: int) -> None:
    frame = fetching(version, [], 5)
    assert seen(version, frame, 0, len(frame)) == (5 if version >= FIRST_WITH_SESSIONS else -1, ())


@each_version
def test_of_a_request_that_is_not_all_here_nothing_is_known(version: int) -> None:
    frame = fetching(version, ["orders", "payments"], 0)
    for end in range(len(frame)):
        assert glance(version, frame[:end], 0, len(frame)) is None


@each_version
def test_a_request_that_ends_too_early_does_not_raise(version: int) -> None:
    frame = fetching(version, ["orders", "payments"], 0)
    for end in range(8, len(frame)):
        glance(version, frame[:end], 0, end)


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_noise_does_not_raise(version: int, noise: bytes) -> None:
    glance(version, noise, 0, len(noise))
    body = (ApiKey.FETCH.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff") + noise
    frame = oracle.framed(body)
    glance(version, frame, 0, len(frame))


@FEWER
@given(st.sampled_from(VERSIONS), st.integers(0, 300), st.binary(max_size=6))
def test_a_request_with_some_bytes_changed_does_not_raise(version: int, at: int, noise: bytes) -> None:
    frame = bytearray(fetching(version, ["orders", "payments"], 3, ["free"]))
    at = 4 + at % (len(frame) - 4)
    frame[at : at + len(noise)] = noise
    glance(version, bytes(frame), 0, len(frame))


@pytest.mark.parametrize("count", [2**31 - 1, -(2**31), 2**16])
def test_a_request_that_announces_very_many_topics_ends_where_its_bytes_end(count: int) -> None:
    frame = fetching(4, [], -1)
    hostile = frame[:-4] + count.to_bytes(4, "big", signed=True)
    found = glance(4, hostile, 0, len(hostile))
    assert found is None if count > 0 else found is not None and found.topics == ()
    flexible = fetching(12, [], -1)
    at = flexible.rindex(b"\1\1\5here")
    hostile = flexible[:at] + b"\xff\xff\xff\xff\x0f" + flexible[at + 1 :]
    assert glance(12, hostile, 0, len(hostile)) is None


@pytest.mark.parametrize(("epoch", "goes_on"), [(-1, False), (0, False), (1, True)])
def test_only_a_session_that_goes_on_may_bring_topics_that_are_not_named(epoch: int, goes_on: bool) -> None:
    assert Glance(epoch, ()).goes_on is goes_on
