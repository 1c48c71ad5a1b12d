"""The sizes of topics in a frame are those that a decoder finds there, however the frame is cut."""

from __future__ import annotations

from itertools import groupby

import pytest
from fuzz.samples import versions
from hypothesis import given
from hypothesis import strategies as some
from support.dialogue import pieces
from support.fetches import VERSIONS as FETCH_VERSIONS
from support.interception import fetch_response
from support.produce_requests import produce_request, topic_id

from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.produce_counts import ProduceWalk
from kafka_sidecar.codec.record_sizes import RecordSizes, Size
from kafka_sidecar.codec.records import NewRecord, batches, build_batch, build_commit_marker

FIRST_WITH_IDS, FIRST_WITH_BATCHES = 13, 3
each_version = pytest.mark.parametrize(
    "version", [one for one in versions(ProduceRequest) if one >= FIRST_WITH_BATCHES]
)
ONE, TWO = build_batch([NewRecord(b"x" * 50)]), build_batch([NewRecord(b"y"), NewRecord(b"z" * 9)])
TOPICS = {"orders": {0: ONE, 3: TWO}, "free": {}, "payments": {1: TWO}}


def key(version: int, name: str) -> str | bytes:
    return topic_id(name) if version >= FIRST_WITH_IDS else name


def summed(version: int, frame: bytes) -> list[Size]:
    """By batch, as the audit counts them, and added up."""
    walk = ProduceWalk(version)
    walk.feed(frame, 0, len(frame))
    found = []
    for name, rows in groupby(walk.rows, lambda one: one.key):
        some_rows = list(rows)
        found.append((name, sum(one.size for one in some_rows), sum(one.count for one in some_rows)))
    return found


@each_version
def test_the_sizes_of_a_request_are_those_of_its_batches(version: int) -> None:
    frame = produce_request(version, TOPICS)
    sizes = RecordSizes(version, True)
    expected = [(key(version, "orders"), len(ONE) + len(TWO), 3), (key(version, "payments"), len(TWO), 2)]
    assert sizes.whole(b"xx" + frame + b"yy", 2, 2 + len(frame)) == expected == summed(version, frame)


@given(cuts=some.lists(some.integers(0, 1000), max_size=5), version=some.sampled_from([3, 9, 12, 13]))
def test_a_request_in_pieces_has_the_same_sizes_and_the_next_one_begins_again(cuts: list[int], version: int) -> None:
    frame = produce_request(version, TOPICS)
    sizes = RecordSizes(version, True)
    for _ in range(2):
        chunks = pieces(frame, cuts)
        for at, chunk in enumerate(chunks):
            sizes.try_feed(chunk, 0, len(chunk), at == len(chunks) - 1)
        assert sizes.batches == 3
        assert sizes.take() == summed(version, frame)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_control_batches_of_a_response_are_not_counted(version: int) -> None:
    marker = build_commit_marker(batches(TWO)[0], 1, 1)
    frame = fetch_response(version, {"orders": {0: {"records": ONE + marker + TWO, "high_watermark": 9}}})
    assert RecordSizes(version, False).whole(frame, 0, len(frame)) == [(key(version, "orders"), len(ONE + TWO), 3)]


@each_version
def test_of_a_request_that_ends_early_what_was_read_is_counted_and_nothing_of_it_stays(version: int) -> None:
    frame = produce_request(version, TOPICS)
    sizes = RecordSizes(version, True)
    cut = frame[: frame.index(TWO) + 61]
    assert sizes.whole(cut, 0, len(cut)) == [(key(version, "orders"), len(ONE) + len(TWO), 3)]
    assert sizes.whole(frame, 0, len(frame)) == summed(version, frame)
