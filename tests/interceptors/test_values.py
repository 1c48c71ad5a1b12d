"""The values of the contract: what is not known, checksums, whose offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_sidecar.interceptors.values import Context, OffsetAndMetadata, Offsets, RecordMetadata, TopicPartition

PLACE = TopicPartition("orders", 3)


def test_metadata_of_which_nothing_is_known_is_minus_one_and_never_none() -> None:
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


def test_offsets_are_a_dict_that_knows_whose_they_are(context: Callable[..., Context]) -> None:
    own = context(group_id="g")
    offsets = Offsets({PLACE: OffsetAndMetadata(5)}, own)
    assert offsets["orders", 3] == OffsetAndMetadata(5, "", -1)  # type: ignore[index]
    assert offsets.context.group_id == "g"
