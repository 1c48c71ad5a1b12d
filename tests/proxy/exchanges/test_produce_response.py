"""Responds about refused partitions: alone, and beside what the broker says of the others, which stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.produce_requests import (
    FIRST_WITH_IDS,
    VERSIONS,
    produce_request,
    produce_response,
    read,
    results,
    topic_id,
)

from kafka_sidecar.codec.apis import ApiKey, response_header_version
from kafka_sidecar.codec.envelope import open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import ResponseHeader
from kafka_sidecar.codec.message import decode, encode
from kafka_sidecar.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafka_sidecar.codec.scan import scan_produce
from kafka_sidecar.proxy.exchanges.produce import build_response, merge_response
from kafka_sidecar.proxy.exchanges.produce_response import (
    PartitionRejection,
    name_rejected,
    summarize,
)

each_version = pytest.mark.parametrize("version", VERSIONS)
FEWER = settings(max_examples=settings().max_examples // 2)
TAGS = ((70, b"later"),)
REJECTED = PartitionRejection(87, "no", ((2, "no"),))


Rejected = list[tuple[str | bytes, list[tuple[int, PartitionRejection | None]]]]


def rejected(version: int, topics: dict[str, list[int]], *places: tuple[int, int]) -> Rejected:
    """What is kept of a request for these partitions, of which those at these places are rejected."""
    frame = produce_request(version, {name: dict.fromkeys(indexes, b"") for name, indexes in topics.items()})
    spans = scan_produce(frame, open_request(frame).body_at, version)
    return name_rejected(spans, dict.fromkeys(places, REJECTED))  # type: ignore[return-value]


def merge(frame: bytes, version: int, kept: Rejected) -> bytes:
    return merge_response(frame, version, kept)[0]


def answer(version: int, response: ProduceResponse) -> bytes:
    header = encode(ResponseHeader(correlation_id=7), response_header_version(ApiKey.PRODUCE, version))
    body = header + encode(response, version)
    return len(body).to_bytes(4, "big") + body


def body_of(version: int, frame: bytes) -> ProduceResponse:
    _, at = decode(ResponseHeader, frame, response_header_version(ApiKey.PRODUCE, version), 4)
    return decode(ProduceResponse, frame, version, at)[0]


def named(version: int, name: str) -> dict[str, object]:
    return {"name": name} if version < FIRST_WITH_IDS else {"topic_id": topic_id(name)}


@each_version
def test_every_field_and_tag_that_the_broker_sent_is_kept(version: int) -> None:
    tags = TAGS if version >= 9 else ()
    errors = (BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="why"),) if version >= 8 else ()
    own = PartitionProduceResponse(
        index=4, error_code=6, base_offset=70, log_append_time_ms=80, log_start_offset=90 if version >= 5 else -1,
        record_errors=errors, error_message="moved" if version >= 8 else None,
        current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=9) if version >= 10 else LeaderIdAndEpoch(),
        unknown_tags=tags,
    )  # fmt: skip
    endpoints = (NodeEndpoint(node_id=3, host="b", port=1),) if version >= 10 else ()
    topic = TopicProduceResponse(partition_responses=(own,), unknown_tags=tags, **named(version, "a"))  # type: ignore[arg-type]
    sent = ProduceResponse(responses=(topic,), throttle_time_ms=50, node_endpoints=endpoints, unknown_tags=tags)
    frame = answer(version, sent)
    got = body_of(version, merge(frame, version, rejected(version, {"a": [1, 4]}, (0, 0))))
    refused, kept = got.responses[0].partition_responses
    assert (refused.index, refused.error_code) == (1, 87)
    assert kept == own
    assert got == sent._replace(responses=(topic._replace(partition_responses=(refused, own)),))  # type: ignore[attr-defined]


@each_version
def test_with_nothing_refused_the_answer_stays_as_it_was(version: int) -> None:
    frame = produce_response(version, {"a": {1: 10, 0: 20}, "b": {0: 30}})
    assert merge(frame, version, rejected(version, {"a": [1, 0], "b": [0]})) == frame


@each_version
def test_a_partition_of_which_the_broker_says_nothing_is_not_made_up(version: int) -> None:
    out = merge(produce_response(version, {}), version, rejected(version, {"a": [0, 1]}, (0, 1)))
    assert results(version, out) == [("a", 1, 87, -1)]


@each_version
def test_a_topic_that_is_named_twice_is_answered_twice(version: int) -> None:
    first, second = rejected(version, {"a": [0]}, (0, 0)), rejected(version, {"a": [1]})
    out = merge(produce_response(version, {"a": {1: 5}}), version, first + second)
    assert results(version, out) == [("a", 0, 87, -1), ("a", 1, 0, 5)]


@each_version
def test_a_topic_that_the_broker_answers_twice_loses_no_partition(version: int) -> None:
    halves = [body_of(version, produce_response(version, {"a": {index: index * 5}})).responses[0] for index in (1, 2)]
    frame = answer(version, ProduceResponse(responses=tuple(halves)))
    out = merge(frame, version, rejected(version, {"a": [0, 1, 2]}, (0, 0)))
    assert results(version, out) == [("a", 0, 87, -1), ("a", 1, 0, 5), ("a", 2, 0, 10)]


@each_version
def test_our_own_answer_has_the_fields_of_a_brokers(version: int) -> None:
    frame, _ = build_response(rejected(version, {"a": [3]}, (0, 0)), version, 7)
    response = read(version, frame)
    (partition,) = response.responses[0].partition_responses
    assert (partition.index, partition.error_code, partition.base_offset) == (3, 87, -1)
    assert partition.log_append_time is None
    assert response.throttle_time.total_seconds() == 0
    if version >= 5:
        assert partition.log_start_offset == -1
    if version >= 8:
        assert (partition.error_message, partition.record_errors[0].batch_index) == ("no", 2)


def test_no_more_than_three_messages_are_shown_of_many() -> None:
    assert summarize(["one"]) == "one"
    many = summarize(["a", "b", "c", "d"])
    assert many.endswith("due to 4 record errors in total, and only showing the first three errors at most: [a, b, c]")


@each_version
def test_the_result_of_each_partition_is_found_by_the_name_or_id_of_its_topic(version: int) -> None:
    frame = produce_response(version, {"a": {0: 5, 2: 7}, "b": {0: 9}})
    same, found = merge_response(frame, version, ())
    assert same is frame
    a, b = (topic_id("a"), topic_id("b")) if version >= FIRST_WITH_IDS else ("a", "b")
    assert {key: one.base_offset for key, one in found.items()} == {(a, 0): 5, (a, 2): 7, (b, 0): 9}


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_noise_raises_a_codec_error_or_is_a_response(version: int, noise: bytes) -> None:
    try:
        merge_response(noise, version, ())
    except CodecError:
        return
