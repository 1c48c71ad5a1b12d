"""The checksum of two parts, from the checksum of each."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.large_messages.crc32c_joined import joined_crc


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_checksum_of_two_parts_is_that_of_both_together(one: bytes, other: bytes) -> None:
    assert joined_crc(crc32c(one), crc32c(other), len(other)) == crc32c(one + other)
