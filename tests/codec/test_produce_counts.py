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
from support.produce_requests import produce_request, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.produce import ProduceRequest, ProduceResponse
from kafka_sidecar.codec.produce_counts import MAX_SCANNED, NOT_ANSWERED, ProduceWalk, Sent, acknowledge, produce_errors
from kafka_sidecar.codec.records import NewRecord, batches, build_batch

FIRST_WITH_IDS, FIRST_OF_KIO, FIRST_FLEXIBLE = 13, 3, 9
each_version = pytest.mark.parametrize("version", versions(ProduceRequest))


def key(version: int, name: str) -> str | bytes:
    return topic_id(name) if version >= FIRST_WITH_IDS else name


def walked(version: int, *chunks: bytes) -> ProduceWalk:
    walk = ProduceWalk(version)
    for chunk in chunks:
        walk.feed(b"xx" + chunk + b"yy", 2, 2 + len(chunk))
    return walk


def of_request(walk: ProduceWalk) -> list[tuple[Any, ...]]:
    return [(one.key, one.index, one.count, one.size, one.timestamp) for one in walk.rows]


def answers(sent: list[Sent]) -> list[tuple[Any, ...]]:
    return [(one.key, one.index, one.error, one.base_offset, one.append_time) for one in sent]


def sent_to(version: int, *partitions: tuple[str, int]) -> list[Sent]:
    """A batch of two records for each, as a request has them."""
    topics: dict[str, dict[int, bytes | None]] = {}
    for name, index in partitions:
        topics.setdefault(name, {})[index] = batch(2)
    found: list[Sent] = walked(version, produce_request(version, topics)).rows
    return found


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
        assert of_request(walk) == expected
        assert {one.error for one in walk.rows} <= {NOT_ANSWERED}


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
    assert [(one.index, one.count) for one in walk.rows] == [(0, 3), (1, 2)]
    assert shown <= 3


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_counted_one_by_one(magic: int) -> None:
    message = (
        bytes(8) + (14 if magic == 0 else 22).to_bytes(4, "big") + bytes(4) + bytes([magic, 0])
        + (b"" if magic == 0 else (7000).to_bytes(8, "big")) + b"\xff" * 8
    )  # fmt: skip
    frame = old_requests.produce_request(magic, {"orders": {0: message * 3}}, 1, 7)
    answer = old_response(magic, "orders", 0, error=0, base=20)
    for chunks in ([frame], [frame[:60], frame[60:75], frame[75:]]):
        walk = walked(magic, *chunks)
        assert of_request(walk) == [("orders", 0, 1, len(message), -1 if magic == 0 else 7000)] * 3
        acknowledge(walk.rows, answer, 0, len(answer), magic)
        assert [one.base_offset for one in walk.rows] == [20, 21, 22]


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
        assert all(one.count >= 0 and one.size > 0 for one in walk.rows)


def test_a_struct_that_never_ends_is_an_error() -> None:
    tags = b"\1\0\xff\xff\xff\xff\x07"  # one of 2 GB
    start = bytes(7) + b"\x09" + bytes(4) + b"\xff\xff" + tags + bytes(600_000)
    walk = ProduceWalk(9)
    walk.feed(start, 0, len(start))
    assert not walk.is_done
    with pytest.raises(CodecError, match="without the end of a struct"):
        walk.feed(start, 0, len(start))


def old_response(version: int, topic: str, index: int, error: int, base: int) -> bytes:
    time = (900).to_bytes(8, "big") if version >= 2 else b""
    partition = index.to_bytes(4, "big") + error.to_bytes(2, "big") + base.to_bytes(8, "big") + time
    body = b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\0\0\0\1" + partition
    return oracle.framed(b"\0\0\0\7" + body + (bytes(4) if version else b""))


def _of_kio(version: int, name: str, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id(name), "partition_responses": partitions}


@pytest.mark.parametrize("version", [one for one in versions(ProduceResponse) if one >= FIRST_OF_KIO])
@pytest.mark.parametrize("partitions", [3, MAX_SCANNED])
def test_each_batch_gets_what_the_response_says_of_its_partition_in_any_order(version: int, partitions: int) -> None:
    random = Random(version)
    sent = sent_to(version, *((name, index) for name in ("a", "b") for index in range(partitions)))
    bases = {(one.key, one.index): random.randrange(1 << 62) for one in sent}
    topics = [
        _of_kio(version, name, [
            {"index": index, "base_offset": bases[key(version, name), index], "error_code": index % 3,
             "record_errors": [{"batch_index": 1, "batch_index_error_message": "no"}]}
            for index in random.sample(range(partitions), partitions - 1)
        ])
        for name in ("b", "a")
    ]  # fmt: skip
    topics.insert(1, _of_kio(version, "c", [{"index": 0, "base_offset": 1}]))  # not of the request
    frame = oracle.response_frame(oracle.response(ApiKey.PRODUCE, version, responses=topics), 7)
    acknowledge(sent, b"before" + frame + b"after", 6, 6 + len(frame), version)
    unanswered = [one for one in sent if one.error == NOT_ANSWERED]
    assert [(one.key, one.base_offset) for one in unanswered] == [(key(version, name), -1) for name in ("a", "b")]
    assert {
        (one.key, one.index): one.base_offset for one in sent if one.error == one.index % 3 and one not in unanswered
    } == {where: base for where, base in bases.items() if where not in {(one.key, one.index) for one in unanswered}}
    errors = [part.get("error_code", 0) for topic in topics for part in topic["partition_responses"]]
    assert produce_errors(b"before" + frame + b"after", 6, 6 + len(frame), version) == errors
    with pytest.raises(CodecError):
        acknowledge(sent, frame, 0, 9, version)
    with pytest.raises(CodecError):
        produce_errors(frame, 0, 9, version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_responses_of_old_versions_are_read(version: int) -> None:
    sent = sent_to(3, ("a", 3))
    answer = old_response(version, "a", 3, error=6, base=8)
    acknowledge(sent, answer, 0, len(answer), version)
    assert answers(sent) == [("a", 3, 6, 8, 900 if version >= 2 else -1)]
    assert produce_errors(answer, 0, len(answer), version) == [6]
