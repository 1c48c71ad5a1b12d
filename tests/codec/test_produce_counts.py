"""What is counted of a Produce request and its response is what a decoder finds there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import versions
from hypothesis import given
from hypothesis import strategies as some
from support import old_requests, oracle
from support.dialogue import pieces
from support.kio_messages import UNKNOWN_TO_KIO, kios_class, random_entity
from support.produce_requests import produce_request, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.produce import ProduceRequest, ProduceResponse
from kafka_sidecar.codec.produce_counts import ProduceWalk, acknowledged
from kafka_sidecar.codec.records import NewRecord, batches, build_batch

FIRST_WITH_IDS = 13
each_version = pytest.mark.parametrize("version", versions(ProduceRequest))


def key(version: int, name: str) -> str | bytes:
    return topic_id(name) if version >= FIRST_WITH_IDS else name


def walked(version: int, *chunks: bytes) -> ProduceWalk:
    walk = ProduceWalk(version)
    for chunk in chunks:
        walk.feed(b"xx" + chunk + b"yy", 2, 2 + len(chunk))
    return walk


def batch(records: int, size: int = 10, time: int = 5000) -> bytes:
    return build_batch([NewRecord(b"v" * size) for _ in range(records)], max_timestamp=time)


@given(
    version=some.sampled_from(versions(ProduceRequest)),
    topics=some.dictionaries(
        some.sampled_from(["a", "orders", "Bücher"]),
        some.dictionaries(
            some.integers(0, 5),
            some.none() | some.builds(batch, some.integers(1, 4), some.integers(0, 300), some.integers(-1, 2**40)),
            max_size=3,
        ),
        max_size=3,
    ),
    cuts=some.lists(some.integers(0, 4000), max_size=10),
)
def test_a_request_is_counted_alike_in_any_pieces(
    version: int, topics: dict[str, dict[int, bytes | None]], cuts: list[int]
) -> None:
    frame = produce_request(version, topics)
    expected = [
        (key(version, name), index, one.header.count, len(one.data), one.header.max_timestamp)
        for name, partitions in topics.items()
        for index, records in partitions.items()
        for one in batches(records or b"")
    ]
    for chunks in ([frame], pieces(frame, cuts)):
        walk = walked(version, *chunks)
        assert walk.is_done
        assert walk.rows == expected
        assert walk.acks == -1


def test_what_may_be_skipped_need_not_be_shown() -> None:
    frame = produce_request(9, {"orders": {0: batch(3, 100_000), 1: batch(2)}})
    walk, at, shown = ProduceWalk(9), 0, 0
    while at < len(frame):
        end = min(at + 1000, len(frame))
        if walk.skip >= end - at < len(frame) - at:
            walk.skip -= end - at
        else:
            walk.feed(frame, at, end)
            shown += 1
        at = end
    assert [row[1:3] for row in walk.rows] == [(0, 3), (1, 2)]
    assert shown <= 3


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_counted_one_by_one(magic: int) -> None:
    message = (
        bytes(8) + (14 if magic == 0 else 22).to_bytes(4, "big") + bytes(4) + bytes([magic, 0])
        + (b"" if magic == 0 else (7000).to_bytes(8, "big")) + b"\xff" * 8
    )  # fmt: skip
    frame = old_requests.produce_request(magic, {"orders": {0: message * 3}}, 1, 7)
    for chunks in ([frame], [frame[:60], frame[60:75], frame[75:]]):
        walk = walked(magic, *chunks)
        assert walk.rows == [("orders", 0, 1, len(message), -1 if magic == 0 else 7000)] * 3


@each_version
def test_hostile_bytes_raise_codec_error_or_are_counted(version: int) -> None:
    random = Random(version)
    frame = produce_request(version, {"orders": {0: batch(3), 1: batch(1)}, "free": {0: batch(2)}})
    for _ in range(300):
        bad = mutated(random, frame, frame[::-1])
        try:
            walk = walked(version, *pieces(bad, [random.randrange(1000) for _ in range(random.randrange(4))]))
        except CodecError:
            continue
        assert all(count >= 0 and size > 0 for _, _, count, size, _ in walk.rows)


def test_a_struct_that_never_ends_is_an_error() -> None:
    tags = b"\1\0\xff\xff\xff\xff\x07"  # one of 2 GB
    start = bytes(7) + b"\x09" + bytes(4) + b"\xff\xff" + tags + bytes(600_000)
    walk = ProduceWalk(9)
    walk.feed(start, 0, len(start))
    assert not walk.is_done
    with pytest.raises(CodecError, match="without the end of a struct"):
        walk.feed(start, 0, len(start))


def _key(topic: Any, version: int) -> str | bytes:
    if version < FIRST_WITH_IDS:
        return str(topic.name)
    return topic.topic_id.bytes if topic.topic_id is not None else bytes(16)


@pytest.mark.parametrize("version", versions(ProduceResponse))
def test_responses_are_read_as_kio_reads_them(version: int) -> None:
    random = Random(version)
    for _ in range(30):
        if ("ProduceResponse", version) in UNKNOWN_TO_KIO:
            return check_old_response(version)
        entity = random_entity(random, kios_class(ProduceResponse, version))
        frame = oracle.response_frame(entity, 7)
        _, read = oracle.read_response(ApiKey.PRODUCE, version, frame)
        expected = [
            (_key(topic, version), one.index, int(one.error_code), one.base_offset)
            for topic in read.responses
            for one in topic.partition_responses
        ]
        found = acknowledged(b"before" + frame + b"after", 6, 6 + len(frame), version)
        assert [row[:4] for row in found] == expected
        with pytest.raises(CodecError):
            acknowledged(frame, 0, 9, version)
    return None


def check_old_response(version: int) -> None:
    partition = b"\0\0\0\3" + b"\0\6" + (8).to_bytes(8, "big") + ((900).to_bytes(8, "big") if version >= 2 else b"")
    body = b"\0\0\0\1" + b"\0\1a" + b"\0\0\0\1" + partition + (bytes(4) if version else b"")
    frame = oracle.framed(b"\0\0\0\7" + body)
    assert acknowledged(frame, 0, len(frame), version) == [("a", 3, 6, 8, 900 if version >= 2 else -1)]
