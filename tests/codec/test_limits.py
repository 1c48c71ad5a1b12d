"""Limits of what clients send: the length of strings, and how many topics and partitions a message announces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuzz.samples import versions
from support.commit_requests import IN_TRANSACTION, PLAIN, commit_request
from support.fetches import fetch_request
from support.interception import fetch_response
from support.produce_requests import produce_request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import open_request, response_body_at
from kafka_sidecar.codec.errors import CodecError, TooManyError
from kafka_sidecar.codec.glance import check_fetch_partitions, glance_fetch, glance_produce
from kafka_sidecar.codec.message import Message, counter, decode, encode, replace_fields, skipper, span
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.codec.messages.offset_commit import OffsetCommitRequest
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafka_sidecar.codec.scan import find_duplicate, scan_fetch, scan_produce
from kafka_sidecar.codec.wire import MAX_STRING_BYTES, write_uvarint

PARTITIONS = {"orders": [0, 1, 2], "free": [7, 8], "none": []}  # five in three topics
TOPICS = {"a": [0], "b": [0], "c": [0]}


def compact(size: int) -> bytes:
    return write_uvarint(size + 1) + b"a" * size


def software(size: int) -> bytes:
    """An ApiVersions request with a name of this length."""
    return compact(size) + compact(1) + b"\0"


def test_a_string_of_maximum_length_is_read_and_written() -> None:
    data = software(MAX_STRING_BYTES)
    request, end = decode(ApiVersionsRequest, data, 3)
    assert (end, len(request.client_software_name)) == (len(data), MAX_STRING_BYTES)
    assert encode(request, 3) == data
    assert skipper(ApiVersionsRequest, 3)(data, 0) == len(data)


@pytest.mark.parametrize("size", [MAX_STRING_BYTES + 1, 1 << 20])
def test_a_longer_string_is_rejected_wherever_strings_are_read_as_kafka_does(size: int) -> None:
    data = software(size)
    for read in (
        lambda: decode(ApiVersionsRequest, data, 3),
        lambda: skipper(ApiVersionsRequest, 3)(data, 0),
        lambda: span(ApiVersionsRequest, "client_software_version", 3)(data, 0),
    ):
        with pytest.raises(CodecError, match=f"invalid length {size} of|{size}"):
            read()


def test_a_longer_string_is_rejected_before_its_bytes_have_arrived() -> None:
    with pytest.raises(CodecError, match="invalid length"):
        skipper(ApiVersionsRequest, 3)(compact(MAX_STRING_BYTES + 1)[:3], 0)


def test_a_longer_string_cannot_be_written() -> None:
    request, _ = decode(ApiVersionsRequest, software(1), 3)
    with pytest.raises(CodecError, match="string that is too long"):
        encode(replace_fields(request, client_software_name="é" * 16384), 3)


def test_a_topic_with_a_longer_name_is_rejected_in_a_produce_request() -> None:
    body = b"\0" + bytes(6) + b"\x02" + compact(1 << 20) + b"\x01\0\0"
    head = bytes.fromhex("0000000900000000ffff00")
    frame = (len(head) + len(body)).to_bytes(4, "big") + head + body
    with pytest.raises(CodecError, match="invalid length 1048576 of a topic's name"):
        scan_produce(frame, open_request(frame).body_at, 9)
    assert glance_produce(frame, 0, len(frame), 9) == ((), 0)
    with pytest.raises(CodecError):
        decode(ProduceRequest, frame, 9, open_request(frame).body_at)


@pytest.mark.parametrize("version", [version for version in versions(ProduceRequest) if version >= 3])
def test_partitions_and_topics_of_a_produce_request_are_limited(version: int) -> None:
    def scan(topics: dict[str, list[int]], limit: int) -> int:
        frame = produce_request(version, {name: dict.fromkeys(indexes, b"") for name, indexes in topics.items()})
        named, _ = glance_produce(frame, 0, len(frame), version, limit)
        try:
            return len(scan_produce(frame, open_request(frame).body_at, version, limit).topics)
        except TooManyError:
            assert named == ()  # so that it is looked into
            raise

    check_limit(scan)


@pytest.mark.parametrize("version", [version for version in versions(FetchRequest) if version >= 4])
def test_partitions_and_topics_of_a_fetch_request_and_its_response_are_limited(version: int) -> None:
    def check(topics: dict[str, list[int]], limit: int) -> int:
        frame = fetch_request(version, {name: dict.fromkeys(indexes, 0) for name, indexes in topics.items()})
        seen = glance_fetch(frame, 0, len(frame), version, limit)
        try:
            check_fetch_partitions(frame, version, limit)
        except TooManyError:
            assert seen is None  # so that it is looked into
            raise
        assert seen is not None
        return len(seen.topics)

    def scan(topics: dict[str, list[int]], limit: int) -> int:
        frame = fetch_response(version, {name: dict.fromkeys(indexes, b"") for name, indexes in topics.items()})
        return len(scan_fetch(frame, response_body_at(ApiKey.FETCH, version, frame), version, limit).topics)

    check_limit(check)
    check_limit(scan)


def test_a_fetch_request_that_is_malformed_otherwise_is_the_brokers_to_reject() -> None:
    frame = fetch_request(12, {"orders": {0: 0}})
    for end in range(20, len(frame)):
        check_fetch_partitions(frame[:end], 12, 1)


@pytest.mark.parametrize(("key", "cls"), [(PLAIN, OffsetCommitRequest), (IN_TRANSACTION, TxnOffsetCommitRequest)])
def test_partitions_and_topics_of_a_commit_are_counted_and_limited(key: int, cls: type[Message]) -> None:
    for version in range(2 if key == PLAIN else 0, 6):

        def count(topics: dict[str, list[int]], limit: int, version: int = version) -> int:
            offsets = {name: dict.fromkeys(indexes, (5, "mine")) for name, indexes in topics.items()}
            frame = commit_request(key, version, offsets)
            at = open_request(frame).body_at
            count = counter(cls, version)(frame, at, limit)
            assert count == len(topics) + sum(map(len, topics.values()))
            return len(topics)

        check_limit(count)


def check_limit(read: Callable[[dict[str, list[int]], int], int]) -> None:
    """Five partitions of three topics are within a limit of five, and three topics in one of three."""
    assert read(PARTITIONS, 5) == 3
    assert read(TOPICS, 3) == 3
    for topics, limit in ((PARTITIONS, 4), (TOPICS, 2)):
        with pytest.raises(TooManyError, match=f"more than {limit}"):
            read(topics, limit)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_partition_that_is_named_twice_is_found(version: int) -> None:
    frame = produce_request(version, {"orders": {0: b"", 1: b""}, "free": {0: b"", 1: b""}})
    at = open_request(frame).body_at
    assert find_duplicate(scan_produce(frame, at, version)) is None
    request, _ = decode(ProduceRequest, frame, version, at)
    orders, free = request.topic_data
    for topics, name in (
        ((orders, free, orders), orders),
        ((orders, replace_fields(free, partition_data=free.partition_data * 2)), free),
    ):
        twice = frame[:at] + encode(replace_fields(request, topic_data=topics), version)
        assert find_duplicate(scan_produce(twice, at, version)) == (key_of(name, version), 0)


def key_of(topic: TopicProduceData, version: int) -> str | bytes:
    return topic.topic_id if version >= 13 else topic.name
