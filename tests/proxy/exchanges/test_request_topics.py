"""Which topics a Produce request names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.produce_requests import GOOD, VERSIONS, asked, topic_id

from kafka_sidecar.proxy.exchanges.request_topics import FIRST_WITH_IDS, topics_named

each_version = pytest.mark.parametrize("version", VERSIONS)


def names(version: int, *topics: str) -> tuple[str | bytes, ...]:
    return topics if version < FIRST_WITH_IDS else tuple(map(topic_id, topics))


@each_version
def test_the_topics_are_named_wherever_the_request_stands(version: int) -> None:
    for topics in (("orders",), ("orders", "free"), ("a", "b", "c")):
        frame = asked(version, {topic: {0: GOOD, 1: GOOD} for topic in topics})
        found, end = topics_named(version, b"before" + frame + b"behind", 6, len(frame))
        assert found == names(version, *topics)
        last = names(version, topics[-1])[0]
        name = last.encode() if isinstance(last, str) else last
        assert (b"before" + frame)[:end].endswith(name)


@each_version
def test_of_one_topic_the_name_is_enough_of_several_all_must_be_here(version: int) -> None:
    one, two = asked(version, {"orders": {0: GOOD}}), asked(version, {"orders": {0: GOOD}, "free": {0: GOOD}})
    _, end = topics_named(version, one, 0, len(one))
    assert topics_named(version, one[: end - 1], 0, len(one)) == ((), 0)
    assert topics_named(version, one[:end], 0, len(one)) == (names(version, "orders"), end)
    assert topics_named(version, two[:-1], 0, len(two)) == ((), 0)


@given(st.binary(max_size=80), st.sampled_from(VERSIONS))
def test_what_stands_behind_the_acks_is_read_or_not_but_never_raises(body: bytes, version: int) -> None:
    empty = asked(version, {})
    frame = empty[: empty.index(b"tx") + 4] + body  # up to the acks
    frame = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
    found, end = topics_named(version, frame, 0, len(frame))
    assert 0 <= end <= len(frame)
    assert all(isinstance(one, str | bytes) for one in found)
