"""Decoded frames are encoded to the same bytes; the codec and kio read spliced frames."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from fuzz.samples import sample, versions
from hypothesis import given
from hypothesis import strategies as some
from support import oracle

from kafka_sidecar.codec.apis import APIS, ApiKey, response_header_version
from kafka_sidecar.codec.envelope import (
    array_count,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    join_frame,
    open_request,
    records_field,
    response_body_at,
    splice,
    without,
)
from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.headers import RequestHeader, ResponseHeader, decode_request_header
from kafka_sidecar.codec.message import decode, encode, field_reader, replace_fields
from kafka_sidecar.codec.messages.fetch import PartitionData
from kafka_sidecar.codec.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from kafka_sidecar.codec.scan import scan_produce

TAGS = ((0, b""), (77, b"xyz"))
VERSIONS = [(key, version) for key, api in APIS.items() for version in range(api.max_version + 1)]
PRODUCE_VERSIONS = versions(ProduceRequest)


def header_bytes(key: int, version: int, client_id: str | None, tags: tuple[tuple[int, bytes], ...]) -> bytes:
    header = RequestHeader(api_key=key, api_version=version, correlation_id=-7, client_id=client_id, unknown_tags=tags)
    flexible_from = APIS[key].flexible_from
    return encode(header, 2 if flexible_from is not None and version >= flexible_from else 1)


@pytest.mark.parametrize("client_id", [None, "", "app", "\udcff"])
def test_a_request_header_is_read(client_id: str | None) -> None:
    for key, version in VERSIONS:
        for tags in ((), TAGS):
            frame = join_frame(header_bytes(key, version, client_id, tags), b"body")

            header, at = decode_request_header(frame, 4)
            request = open_request(frame)

            assert (request.body_at, request.header) == (at, frame[4:at])
            assert (request.api_key, request.api_version) == (key, version)
            assert (request.correlation_id, request.client_id) == (-7, header.client_id)


@given(some.binary(max_size=30), some.sampled_from([b"\0\0\0\x09", b"\0\1\0\x07", b"\0\x12\0\3"]))
def test_an_invalid_header_is_rejected_with_the_error_of_the_decoder(data: bytes, route: bytes) -> None:
    frame = b"size" + route + data
    try:
        _, at = decode_request_header(frame, 4)
    except CodecError:
        with pytest.raises(CodecError):
            open_request(frame)
    else:
        assert open_request(frame).body_at == at


@pytest.mark.parametrize("size", range(13))
def test_a_request_that_ends_in_its_header_is_rejected(size: int) -> None:
    with pytest.raises(TruncatedError):
        open_request(join_frame(header_bytes(0, 9, "a", ()), b"")[:size])


def test_the_body_of_a_response_is_found() -> None:
    for key, version in VERSIONS:
        header_version = response_header_version(key, version)
        for tags in ((), TAGS) if header_version else ((),):
            header = encode(ResponseHeader(correlation_id=9, unknown_tags=tags), header_version)

            assert response_body_at(key, version, b"before" + join_frame(header, b"body"), 6) == 10 + len(header)


def test_a_response_that_ends_in_its_header_is_rejected() -> None:
    for version in (8, 9):
        for size in range(8 + (version == 9)):
            with pytest.raises(TruncatedError):
                response_body_at(ApiKey.PRODUCE, version, bytes(size))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_request_is_decoded_and_edited(version: int) -> None:
    message = sample(Random(version), ProduceRequest, version)
    frame = join_frame(header_bytes(0, version, "app", ()), encode(message, version) + b"after")

    request, opened = decode_request(ProduceRequest, frame)
    new = opened.with_message(replace_fields(message, timeout_ms=5))

    assert (request.client_id, opened.message) == ("app", message)
    assert opened.with_message(message) is frame
    assert decode_request(ProduceRequest, new)[1].message == replace_fields(message, timeout_ms=5)
    assert (new[4 : request.body_at], new[-5:]) == (request.header, b"after")
    assert len(new) - 4 == int.from_bytes(new[:4], "big")


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_response_is_decoded_and_edited(version: int) -> None:
    message = sample(Random(version), ProduceResponse, version)
    frame = encode_response(message, version, 3)

    opened = decode_response(ProduceResponse, frame, version)

    assert opened.message == message
    assert opened.with_message(message) is frame
    assert opened.with_message(replace_fields(message, throttle_time_ms=1)) == encode_response(
        replace_fields(message, throttle_time_ms=1), version, 3
    )


def test_frames_are_written_as_kio_writes_them() -> None:
    for version in (8, 9):
        ours = encode_request(ProduceRequest(acks=1), version, 12, "app")
        assert ours == oracle.request_frame(oracle.request(0, version, acks=1), 12)
        ours = encode_response(ProduceResponse(throttle_time_ms=1000), version, 12)
        assert ours == oracle.response_frame(oracle.response(0, version, throttle_time=timedelta(seconds=1)), 12)


def test_a_splice_applies_every_edit_at_its_position() -> None:
    frame = join_frame(b"head", b"0123456789")

    assert splice(frame, []) is frame
    assert splice(frame, [(8, 9, b"abc"), (9, 9, memoryview(b"-")), (12, 18, b"")]) == join_frame(b"head", b"abc-123")


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_long_frame_is_spliced_like_a_short_one(size: int) -> None:
    frame = join_frame(b"head", bytes(size) + b"end")

    assert splice(frame, [(4, 5, b"new"), (len(frame), len(frame), b"!")]) == join_frame(
        b"newead", bytes(size) + b"end!"
    )


@pytest.mark.parametrize("edits", [[(3, 4, b"")], [(9, 8, b"")], [(6, 9, b""), (8, 9, b"")], [(17, 19, b"")]])
def test_overlapping_or_unordered_edits_raise_value_error(edits: list[tuple[int, int, bytes]]) -> None:
    with pytest.raises(ValueError, match="an edit of"):
        splice(join_frame(b"head", b"0123456789"), edits)


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("records", [None, b"", b"x" * 126, b"x" * 127, memoryview(b"x" * 70_000)])
def test_a_records_field_is_encoded_as_it_is_decoded(version: int, records: bytes | memoryview | None) -> None:
    data = records_field(records, version == 12)
    assert field_reader(PartitionData, "records", version)(data, 0) == (records, len(data))


@given(seed=some.integers(0, 2**32), version=some.sampled_from(PRODUCE_VERSIONS), share=some.sampled_from([0.2, 0.9]))
def test_removing_partitions_keeps_all_others(seed: int, version: int, share: float) -> None:
    random = Random(seed)
    message = sample(random, ProduceRequest, version)
    frame = join_frame(header_bytes(0, version, "app", TAGS if version >= 9 else ()), encode(message, version))
    body_at = open_request(frame).body_at
    places = [(at, one) for at, topic in enumerate(message.topic_data) for one in range(len(topic.partition_data))]
    dropped = {place for place in places if random.random() < share}

    left = without(frame, scan_produce(frame, body_at, version), version, dropped)

    topics = [without_dropped(topic, at, dropped) for at, topic in enumerate(message.topic_data)]
    expected = replace_fields(message, topic_data=tuple(topic for topic in topics if topic.partition_data))
    if not dropped:
        assert left is frame
    elif not expected.topic_data:
        assert left == b""
    else:
        assert left == join_frame(frame[4:body_at], encode(expected, version))
        assert decode(ProduceRequest, left, version, body_at) == (expected, len(left))


def without_dropped(topic: TopicProduceData, at: int, dropped: set[tuple[int, int]]) -> TopicProduceData:
    kept = [one for index, one in enumerate(topic.partition_data) if (at, index) not in dropped]
    return replace_fields(topic, partition_data=tuple(kept))


def test_partitions_that_are_not_removed_stay_byte_for_byte() -> None:
    """Also if their lengths have more bytes than needed, which our encoder never writes."""
    begin, dropped = "00 0001 000003e8 8300 8200 61", "00000000 8000 00"
    rest = "00000001 8100 8000 8000  02 62 8200 00000000 00 00 00 00"
    body = bytes.fromhex(f"{begin} 8300 {dropped} {rest}")
    frame = join_frame(header_bytes(0, 9, "app", ()), body)
    body_at = open_request(frame).body_at
    assert [len(topic.partition_data) for topic in decode(ProduceRequest, frame, 9, body_at)[0].topic_data] == [2, 1]

    left = without(frame, scan_produce(frame, body_at, 9), 9, {(0, 0)})

    assert left == join_frame(frame[4:body_at], bytes.fromhex(f"{begin} 02 {rest}"))


@pytest.mark.parametrize("flexible", [False, True])
def test_an_array_count_is_encoded_for_flexible_and_other_versions(flexible: bool) -> None:
    assert [array_count(count, flexible).hex() for count in (0, 1, 127)] == (
        ["01", "02", "8001"] if flexible else ["00000000", "00000001", "0000007f"]
    )
