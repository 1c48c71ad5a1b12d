"""What is counted of a ShareFetch response is what its headers and acquired ranges say."""

from __future__ import annotations

from random import Random

import pytest
from fuzz.mutations import mutated
from fuzz.samples import versions
from hypothesis import given
from hypothesis import strategies as some
from support.dialogue import pieces
from support.produce_requests import topic_id
from support.share_fetches import partition, share_response

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.codec.share_fetch_counts import ShareFetchWalk

ORDERS, FREE = topic_id("orders"), topic_id("free")
CONTROL = 0x20
each_version = pytest.mark.parametrize("version", versions(ShareFetchResponse))


def batch(base: int, records: int = 3, attributes: int = 0) -> bytes:
    values = [NewRecord(b"v" * 50) for _ in range(records)]
    return build_batch(values, base_offset=base, max_timestamp=5000 + base, attributes=attributes)


def walked(version: int, frame: bytes, cuts: list[int]) -> ShareFetchWalk:
    walk = ShareFetchWalk(version)
    for chunk in pieces(frame, cuts):
        walk.feed(b"xx" + chunk + b"yy", 2, 2 + len(chunk))
    assert walk.is_done
    return walk


@given(version=some.sampled_from(versions(ShareFetchResponse)), cuts=some.lists(some.integers(0, 3000), max_size=10))
def test_a_walk_that_ignores_batches_ends_at_the_same_place_and_keeps_nothing(version: int, cuts: list[int]) -> None:
    moved = partition(b"", (9, 9), acknowledge_error_code=6)
    frame = share_response(version, {"orders": [partition(batch(10), (10, 12)), moved]})
    reading, stepping = ShareFetchWalk(version), ShareFetchWalk(version)
    stepping.ignore_batches(1 << 20)
    for chunk in pieces(frame, cuts):
        for walk in (reading, stepping):
            if not walk.is_done:
                walk.feed(chunk, 0, len(chunk))
        assert (stepping.is_done, stepping.left) == (reading.is_done, reading.left)
    assert (len(reading.rows), len(reading.acquired), len(reading.refused)) == (1, 2, 1)
    assert (stepping.rows, stepping.acquired, stepping.refused) == ([], [], set())


@given(version=some.sampled_from(versions(ShareFetchResponse)), cuts=some.lists(some.integers(0, 3000), max_size=10))
def test_a_response_is_counted_alike_in_any_pieces(version: int, cuts: list[int]) -> None:
    frame = share_response(version, {
        "orders": [
            partition(batch(10) + batch(13, 1, CONTROL) + batch(14, 2), (10, 12), (15, 15)),
            partition(b"", acknowledge_error_code=121, acknowledge_error_message="no longer acquired"),
            {"records": b"", "error_code": 6, "error_message": "has moved"},
        ],
        "free": [partition(batch(7, 20), (7, 26), deliveries=1)],
    })  # fmt: skip
    walk = walked(version, frame, cuts)
    assert walk.rows == [
        (ORDERS, 0, 5010, 3, len(batch(10)), 10, 12),
        (ORDERS, 0, 5014, 2, len(batch(14, 2)), 14, 15),
        (FREE, 0, 5007, 20, len(batch(7, 20)), 7, 26),
    ]
    assert walk.acquired == [(ORDERS, 0, 10, 12, 2), (ORDERS, 0, 15, 15, 2), (FREE, 0, 7, 26, 1)]
    assert (walk.refused, walk.error_code) == ({(ORDERS, 1)}, 0)


@each_version
def test_the_error_of_a_response_is_known(version: int) -> None:
    walk = walked(version, share_response(version, {}, error_code=122, error_message="the session is gone"), [])
    assert (walk.error_code, walk.rows, walk.acquired) == (122, [], [])


@each_version
def test_hostile_responses_raise_codec_error_or_are_counted(version: int) -> None:
    random = Random(version)
    frame = share_response(version, {"orders": [partition(batch(0) + batch(3), (0, 5))], "free": [partition(batch(4))]})
    for _ in range(300):
        walk = ShareFetchWalk(version)
        bad = mutated(random, frame, frame[::-1])
        try:
            for chunk in pieces(bad, [random.randrange(600) for _ in range(random.randrange(4))]):
                walk.feed(chunk, 0, len(chunk))
        except CodecError:
            continue
        assert all(row[3] >= 0 and row[4] > 0 for row in walk.rows)
