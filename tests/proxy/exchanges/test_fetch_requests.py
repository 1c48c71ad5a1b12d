"""The beginning of Fetch requests that kio has written, of those that are cut off, and noise."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.fetches import FIRST_WITH_IDS, FIRST_WITH_SESSIONS, VERSIONS
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.glance import glance_fetch
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.proxy.exchanges import fetch
from kafka_sidecar.proxy.exchanges.fetch import FIRST_FLEXIBLE, limit_size, read_start

FEWER = settings(max_examples=settings().max_examples // 2)
each_version = pytest.mark.parametrize("version", VERSIONS)


def fetch_request(
    version: int, topics: Sequence[str], epoch: int = -1, forgotten: Sequence[str] = (), isolation_level: int = 0,
    max_bytes: int = 1 << 20,
) -> bytes:  # fmt: skip
    """The topics have 0, 1, 2 ... partitions."""
    request: dict[str, Any] = {
        "replica_id": -1,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_id": 99,
        "session_epoch": epoch,
        "rack_id": "here",
        "topics": [
            {"topic": name, "topic_id": topic_id(name), "partitions": [{"partition": 0, "fetch_offset": 5}] * count}
            for count, name in enumerate(topics)
        ],
        "forgotten_topics_data": [
            {"topic": name, "topic_id": topic_id(name), "partitions": [0, 3]} for name in forgotten
        ],
    }
    return oracle.request_frame(oracle.request(ApiKey.FETCH, version, **request), 7)


def keys(version: int, *names: str) -> list[str | bytes]:
    return [topic_id(name) if version >= FIRST_WITH_IDS else name for name in names]


@each_version
@pytest.mark.parametrize("epoch", [-1, 0, 1, 2**31 - 1])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_beginning_is_found_wherever_the_request_is(version: int, epoch: int, isolation_level: int) -> None:
    names = ("orders", "", "ü", "payments")
    frame = fetch_request(version, names, epoch, ["gone", "free"], isolation_level)
    for data, at in ((frame, 0), (b"before" + frame + b"after", 6)):
        start = read_start(version, data, at)
        assert start.isolation_level == isolation_level
        assert start.session_epoch == (epoch if version >= FIRST_WITH_SESSIONS else -1)
        seen = glance_fetch(data, at, len(frame), version)
        assert seen is not None
        assert list(seen.topics) == keys(version, *names)
        assert seen.session_epoch == start.session_epoch


@each_version
def test_a_request_without_topics_has_none(version: int) -> None:
    frame = fetch_request(version, [], 5)
    start = read_start(version, frame, 0)
    assert frame.startswith(b"\1" if version >= FIRST_FLEXIBLE else bytes(4), start.topics_at)
    epoch = 5 if version >= FIRST_WITH_SESSIONS else 1 << 20  # where there is none, the number before is another one
    assert start.continues_session is (version >= FIRST_WITH_SESSIONS)
    if version >= FIRST_WITH_SESSIONS:
        assert int.from_bytes(frame[start.topics_at - 4 : start.topics_at], "big") == epoch


@pytest.mark.parametrize(("epoch", "continues"), [(-1, False), (0, False), (1, True)])
def test_only_a_request_that_continues_a_session_leaves_out_topics(epoch: int, continues: bool) -> None:
    assert read_start(12, fetch_request(12, ["orders"], epoch), 0).continues_session is continues


@each_version
def test_a_request_that_is_cut_off_before_its_topics_raises_a_codec_error(version: int) -> None:
    frame = fetch_request(version, ["orders", "payments"], 0)
    for end in range(read_start(version, frame, 0).topics_at):
        with pytest.raises(CodecError):
            read_start(version, frame[:end], 0)


def read_all(version: int, data: bytes) -> None:
    with suppress(CodecError):
        read_start(version, data, 0)


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_noise_raises_a_codec_error_at_most(version: int, noise: bytes) -> None:
    read_all(version, noise)
    read_all(version, oracle.framed(pack_header(version) + noise))


def pack_header(version: int) -> bytes:
    return ApiKey.FETCH.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"


@FEWER
@given(st.sampled_from(VERSIONS), st.integers(0, 300), st.binary(max_size=6))
def test_a_request_with_some_bytes_changed_raises_a_codec_error_at_most(version: int, at: int, noise: bytes) -> None:
    frame = bytearray(fetch_request(version, ["orders", "payments"], 3, ["free"]))
    at = 4 + at % (len(frame) - 4)
    frame[at : at + len(noise)] = noise
    read_all(version, bytes(frame))


@pytest.mark.parametrize("count", [2**31 - 1, -(2**31), 2**16])
def test_a_request_that_announces_very_many_topics_names_none(count: int) -> None:
    frame = fetch_request(4, [], -1)
    hostile = frame[:-4] + count.to_bytes(4, "big", signed=True)
    assert glance_fetch(hostile, 0, len(hostile), 4) is None
    flexible = fetch_request(12, [], -1)
    at = flexible.rindex(b"\1\1\5here")
    hostile = flexible[:at] + b"\xff\xff\xff\xff\x0f" + flexible[at + 1 :]
    assert glance_fetch(hostile, 0, len(hostile), 12) is None


def test_first_versions_are_those_of_the_declaration() -> None:
    declaration = FetchRequest.declaration_
    assert declaration.versions is not None
    assert declaration.flexible is not None
    assert declaration.versions.low == fetch.OLDEST
    assert declaration.flexible.low == FIRST_FLEXIBLE


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= FIRST_FLEXIBLE])
def test_tagged_fields_of_the_header_are_skipped(version: int) -> None:
    frame = fetch_request(version, ["orders"], 3, isolation_level=1)
    at = 4 + 8 + 2 + len(b"app")
    assert frame[at : at + 1] == b"\0"
    tagged = frame[:at] + b"\2\5\3abc\6\0" + frame[at + 1 :]
    plain, found = read_start(version, frame, 0), read_start(version, tagged, 0)
    assert found == plain._replace(topics_at=plain.topics_at + 7, max_bytes_at=plain.max_bytes_at + 7)


@each_version
def test_a_request_asks_for_no_more_than_may_be_buffered(version: int) -> None:
    frame = fetch_request(version, ("orders", "payments"), 5)
    start = read_start(version, frame, 0)
    assert limit_size(version, frame, start, 1 << 20) is frame
    limited = limit_size(version, frame, start, 1000)
    assert limited == fetch_request(version, ("orders", "payments"), 5, max_bytes=1000)
