"""The values of the contract: record metadata, checksums, offsets and contexts."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_sidecar.plugins.values import (
    Context,
    OffsetAndMetadata,
    Offsets,
    RecordMetadata,
    TopicPartition,
    java_length,
)

PLACE = TopicPartition("orders", 3)


def test_unknown_fields_of_record_metadata_are_minus_one() -> None:
    metadata = RecordMetadata("orders", 3)
    assert metadata.topic_partition == PLACE
    assert metadata[2:6] == (-1, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "key", "value", "data"),
    [(1_700_000_000_000, 3, 1024, "0000018bcfe56800 00000003 00000400"), (-1, -1, -1, "ff" * 16)],
)
def test_the_checksum_is_crc_32c_of_time_and_sizes_as_in_kafka(timestamp: int, key: int, value: int, data: str) -> None:
    crc = 0xFFFFFFFF
    for byte in bytes.fromhex(data):
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    assert RecordMetadata("orders", 3, 7, timestamp, key, value).checksum == crc ^ 0xFFFFFFFF


def test_offsets_are_a_dict_with_the_context_of_the_request() -> None:
    own = Context(int, group_id="g")
    offsets = Offsets({PLACE: OffsetAndMetadata(5)}, own)
    assert offsets["orders", 3] == OffsetAndMetadata(5, "", -1)  # type: ignore[index]
    assert offsets.context.group_id == "g"


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("\u00e9\u9375", 2), ("\U0001f600", 2)])
def test_commit_metadata_is_measured_in_utf_16_units_as_in_java(text: str, length: int) -> None:
    assert java_length(text) == length
    assert Offsets({}, Context(int), max_metadata=length).fits(text)
    assert not Offsets({}, Context(int), max_metadata=length - 1).fits(text)


@pytest.mark.parametrize(
    ("of_commit", "is_member"),
    [
        ({"generation_id": 0, "member_id": "m"}, True),
        ({"generation_id": -1, "member_id": "m"}, True),  # leaving: KIP-848 has the epoch -1 for that
        ({"generation_id": 3, "member_id": ""}, True),
        ({"generation_id": -1, "member_id": ""}, False),  # an admin, or a consumer that assigns its partitions itself
        ({}, False),  # not a commit
    ],
)
def test_a_commit_is_a_members_if_it_has_a_generation_or_a_member_id(
    of_commit: dict[str, Any], is_member: bool
) -> None:
    assert Context(int, **of_commit).is_member is is_member


def test_contexts_of_two_requests_differ_even_if_their_fields_are_equal() -> None:
    one = Context(clock=int, session=1, client_id="app")
    other = one._replace()
    assert one != other
    assert len({one, other}) == 2


def test_a_byte_that_is_not_utf_8_is_one_character_of_metadata() -> None:
    assert java_length(b"a\xff".decode("utf-8", "surrogateescape")) == 2
