"""What is counted of a Fetch and its response is what a consumer reads of it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import versions
from hypothesis import given
from hypothesis import strategies as some
from support import oracle
from support.dialogue import pieces
from support.interception import fetch_response
from support.produce_requests import topic_id
from support.share_fetches import partition, share_response

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import Offsets
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse
from kafka_sidecar.codec.records import NewRecord, batches, build_batch

FIRST_WITH_IDS, FIRST_WITH_SESSIONS = 13, 7
TRANSACTIONAL, CONTROL = 0x10, 0x20
each_version = pytest.mark.parametrize("version", versions(FetchResponse))


def key(version: int, name: str) -> str | bytes:
    return topic_id(name) if version >= FIRST_WITH_IDS else name


def batch(base: int, records: int = 3, time: int = 5000, last: int | None = None, **more: Any) -> bytes:
    return build_batch(
        [NewRecord(b"v" * 20) for _ in range(records)],
        base_offset=base,
        last_offset_delta=(last - base) if last is not None else None,
        max_timestamp=time,
        **more,
    )


def walked(version: int, frame: bytes, cuts: list[int] | None = None, **more: Any) -> FetchWalk:
    offsets = Offsets()
    for (topic, index), offset in more.pop("offsets", {}).items():
        offsets.add(topic, index, offset)
    walk = FetchWalk(version, offsets, **more)
    for chunk in pieces(frame, cuts or []):
        walk.feed(b"xx" + chunk + b"yy", 2, 2 + len(chunk))
    assert walk.is_done
    return walk


def rows(records: bytes, offset: int = 0, aborted: tuple[tuple[int, int], ...] = (), **more: Any) -> list[Any]:
    """(timestamp, records, first offset, last offset, aborted) of one partition."""
    listed = [{"producer_id": producer, "first_offset": first} for producer, first in aborted]
    frame = fetch_response(12, {"orders": {0: {"records": records, "aborted_transactions": listed or None}}})
    walk = walked(12, frame, offsets={("orders", 0): offset}, **more)
    return [(row.timestamp, row.count, row.first, row.last, row.aborted) for row in walk.rows]


@given(
    version=some.sampled_from(versions(FetchResponse)),
    partitions=some.dictionaries(some.integers(0, 4), some.lists(some.integers(1, 5), max_size=4), max_size=4),
    cuts=some.lists(some.integers(0, 3000), max_size=10),
    end=some.integers(0, 70),
)
def test_a_response_is_counted_alike_in_any_pieces(
    version: int, partitions: dict[int, list[int]], cuts: list[int], end: int
) -> None:
    topics: dict[str, dict[int, bytes]] = {"orders": {}, "free": {}}
    for index, counts in partitions.items():
        records, base = b"", 10
        for count in counts:
            records += batch(base, count, time=1000 + base)
            base += count
        topics["free" if index % 2 else "orders"][index] = records + batch(base)[:end]  # cut off by the broker
    frame = fetch_response(version, topics)
    expected = [
        (
            key(version, name), index, one.header.max_timestamp, one.header.count, len(one.data),
            one.header.base_offset, one.header.base_offset + one.header.last_offset_delta, 0,
        )
        for name, each in topics.items()
        for index, records in each.items()
        for one in batches(records, may_end_early=True)
    ]  # fmt: skip
    assert [
        (row.key, row.index, row.timestamp, row.count, row.size, row.first, row.last, row.aborted)
        for row in walked(version, frame, cuts).rows
    ] == expected


def test_the_first_batch_is_cut_off_at_the_offset_that_was_asked_for() -> None:
    assert rows(batch(10, 5) + batch(15, 2), offset=12) == [(5000, 3, 12, 14, 0), (5000, 2, 15, 16, 0)]
    assert rows(batch(10, 5), offset=15) == []
    assert rows(batch(10, 2, last=19), offset=15) == [(5000, 2, 15, 19, 0)]  # compacted: at most as many
    assert rows(batch(10, 2, last=19), offset=19) == [(5000, 1, 19, 19, 0)]


def test_control_batches_are_not_shown() -> None:
    marker = batch(13, 1, attributes=TRANSACTIONAL | CONTROL, producer_id=7)
    assert rows(batch(10, attributes=TRANSACTIONAL, producer_id=7) + marker) == [(5000, 3, 10, 12, 0)]


def test_records_of_aborted_transactions_are_counted_apart_for_who_reads_committed_ones() -> None:
    def sent(base: int, producer: int) -> bytes:
        return batch(base, attributes=TRANSACTIONAL, producer_id=producer)

    def ended(base: int, producer: int) -> bytes:
        return batch(base, 1, attributes=TRANSACTIONAL | CONTROL, producer_id=producer)

    # 7 aborts, then commits; 8 aborts what begins in between; 9 is not of a transaction
    log = sent(0, 7) + sent(3, 8) + ended(6, 7) + sent(7, 7) + batch(10, producer_id=8) + sent(13, 8) + ended(16, 8)
    aborted = ((8, 3), (7, 0))
    shown = [(5000, 3, 0, 2), (5000, 3, 3, 5), (5000, 3, 7, 9), (5000, 3, 10, 12), (5000, 3, 13, 15)]
    gone = [3, 3, 0, 0, 3]
    assert rows(log, aborted=aborted, committed_only=True) == [(*row, n) for row, n in zip(shown, gone, strict=True)]
    assert rows(log, aborted=aborted) == [(*row, 0) for row in shown]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_counted_one_by_one(magic: int) -> None:
    def message(offset: int) -> bytes:
        size = 14 if magic == 0 else 22
        time = b"" if magic == 0 else (7000).to_bytes(8, "big")
        return offset.to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(4) + bytes([magic, 0]) + time + b"\xff" * 8

    time = -1 if magic == 0 else 7000
    assert rows(message(4) + message(5) + message(6)[:-1], offset=5) == [(time, 1, 5, 5, 0)]


def test_batches_of_the_same_bucket_and_latency_are_one_row() -> None:
    now, hour = 10_000_000, 3_600_000
    log = batch(0, time=5_400_000) + batch(3, 2, time=5_400_050)
    assert rows(log, bucket_ms=hour, now_ms=now) == [(5_400_050, 5, 0, 4, 0)]
    assert len(rows(log)) == 2  # not asked for
    assert len(rows(log, bucket_ms=hour, now_ms=5_400_100)) == 2  # the latencies differ
    assert len(rows(log, bucket_ms=20, now_ms=now)) == 2  # another bucket
    assert len(rows(batch(0) + batch(4), bucket_ms=hour, now_ms=now)) == 2  # something is missing in between
    assert len(rows(batch(0, 2, last=2) + batch(3), bucket_ms=hour, now_ms=now)) == 2  # the first one was compacted
    assert len(rows(batch(0, time=-1) + batch(3, time=-1), bucket_ms=hour, now_ms=now)) == 2
    transaction = batch(3, attributes=TRANSACTIONAL, producer_id=7)
    assert len(rows(batch(0) + transaction, aborted=((7, 3),), committed_only=True, bucket_ms=hour, now_ms=now)) == 2
    topics = {"orders": {0: batch(0), 1: batch(3)}}
    assert len(walked(12, fetch_response(12, topics), bucket_ms=hour, now_ms=now).rows) == 2


@pytest.mark.parametrize(
    "damage",
    [lambda one: one[:16] + b"\3" + one[17:], lambda one: one[:8] + bytes(4) + one[12:], lambda one: b"\xff" + one[1:],
     lambda one: one[:23] + b"\xff" + one[24:]],
)  # fmt: skip
def test_a_damaged_header_is_an_error(damage: Any) -> None:
    frame = fetch_response(12, {"orders": {0: batch(0) + damage(batch(3))}})
    walk = FetchWalk(12, Offsets())
    with pytest.raises(CodecError):
        walk.feed(frame, 0, len(frame))


def test_fetches_older_than_version_4_are_counted() -> None:
    for version in range(4):
        records = batch(10)
        body = (bytes(4) if version else b"") + b"\0\0\0\1" + b"\0\1a" + b"\0\0\0\1" + bytes(14)
        frame = oracle.framed(bytes(4) + body + len(records).to_bytes(4, "big") + records)
        assert [(row.key, row.index) for row in walked(version, frame).rows] == [("a", 0)]


@each_version
def test_hostile_responses_raise_codec_error_or_are_counted(version: int) -> None:
    random = Random(version)
    frame = fetch_response(version, {"orders": {0: batch(0) + batch(3), 1: batch(4)}, "free": {0: batch(0)}})
    for _ in range(300):
        walk = FetchWalk(version, Offsets(), True, 1000, 10_000)
        bad = mutated(random, frame, frame[::-1])
        try:
            for chunk in pieces(bad, [random.randrange(1000) for _ in range(random.randrange(4))]):
                walk.feed(chunk, 0, len(chunk))
        except CodecError:
            continue
        assert all(row.count >= 0 and row.size > 0 for row in walk.rows)


def test_the_session_of_a_response_is_known() -> None:
    walk = walked(12, fetch_response(12, {}, session_id=77))
    assert walk.session_id == 77


ORDERS, FREE = topic_id("orders"), topic_id("free")
CONTROL = 0x20
each_share_version = pytest.mark.parametrize("version", versions(ShareFetchResponse))


def plain_batch(base: int, records: int = 3, attributes: int = 0) -> bytes:
    values = [NewRecord(b"v" * 50) for _ in range(records)]
    return build_batch(values, base_offset=base, max_timestamp=5000 + base, attributes=attributes)


def walked_share(version: int, frame: bytes, cuts: list[int]) -> ShareFetchWalk:
    walk = ShareFetchWalk(version)
    for chunk in pieces(frame, cuts):
        walk.feed(b"xx" + chunk + b"yy", 2, 2 + len(chunk))
    assert walk.is_done
    return walk


@given(version=some.sampled_from(versions(ShareFetchResponse)), cuts=some.lists(some.integers(0, 3000), max_size=10))
def test_a_walk_that_ignores_batches_ends_at_the_same_place_and_keeps_nothing(version: int, cuts: list[int]) -> None:
    moved = partition(b"", (9, 9), acknowledge_error_code=6)
    frame = share_response(version, {"orders": [partition(plain_batch(10), (10, 12)), moved]})
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
def test_a_share_response_is_counted_alike_in_any_pieces(version: int, cuts: list[int]) -> None:
    frame = share_response(version, {
        "orders": [
            partition(plain_batch(10) + plain_batch(13, 1, CONTROL) + plain_batch(14, 2), (10, 12), (15, 15)),
            partition(b"", acknowledge_error_code=121, acknowledge_error_message="no longer acquired"),
            {"records": b"", "error_code": 6, "error_message": "has moved"},
        ],
        "free": [partition(plain_batch(7, 20), (7, 26), deliveries=1)],
    })  # fmt: skip
    walk = walked_share(version, frame, cuts)
    assert walk.rows == [
        (ORDERS, 0, 5010, 3, len(plain_batch(10)), 10, 12),
        (ORDERS, 0, 5014, 2, len(plain_batch(14, 2)), 14, 15),
        (FREE, 0, 5007, 20, len(plain_batch(7, 20)), 7, 26),
    ]
    assert walk.acquired == [(ORDERS, 0, 10, 12, 2), (ORDERS, 0, 15, 15, 2), (FREE, 0, 7, 26, 1)]
    assert (walk.refused, walk.error_code) == ({(ORDERS, 1)}, 0)


@each_share_version
def test_the_error_of_a_response_is_known(version: int) -> None:
    walk = walked_share(version, share_response(version, {}, error_code=122, error_message="the session is gone"), [])
    assert (walk.error_code, walk.rows, walk.acquired) == (122, [], [])


@each_share_version
def test_hostile_share_responses_raise_codec_error_or_are_counted(version: int) -> None:
    random = Random(version)
    frame = share_response(
        version, {"orders": [partition(plain_batch(0) + plain_batch(3), (0, 5))], "free": [partition(plain_batch(4))]}
    )
    for _ in range(300):
        walk = ShareFetchWalk(version)
        bad = mutated(random, frame, frame[::-1])
        try:
            for chunk in pieces(bad, [random.randrange(600) for _ in range(random.randrange(4))]):
                walk.feed(chunk, 0, len(chunk))
        except CodecError:
            continue
        assert all(row[3] >= 0 and row[4] > 0 for row in walk.rows)
