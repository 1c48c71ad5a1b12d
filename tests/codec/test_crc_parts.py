"""Checksums that follow from others are those of the bytes themselves."""

from __future__ import annotations

import os

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.crc_parts import joined, without_end, without_start

SIZES = [0, 1, 3, 61, 4096, 1_000_001]


@given(st.binary(), st.binary())
def test_every_part_follows_from_the_others(first: bytes, second: bytes) -> None:
    one, other, whole = crc32c(first), crc32c(second), crc32c(first + second)

    assert joined(one, other, len(second)) == whole
    assert without_end(whole, other, len(second)) == one
    assert without_start(whole, one, len(second)) == other


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("before", SIZES)
def test_large_parts_follow_from_the_others(before: int, size: int) -> None:
    first, second = os.urandom(before), os.urandom(size)
    whole = crc32c(second, crc32c(first))

    assert joined(crc32c(first), crc32c(second), size) == whole
    assert without_end(whole, crc32c(second), size) == crc32c(first)
    assert without_start(whole, crc32c(first), size) == crc32c(second)


def test_a_size_beyond_32_bits_is_one_of_many_zeros() -> None:
    """The checksum of no bytes is 0: only the distance counts."""
    far, parts = 5 << 30, 5
    crc = crc32c(b"before")
    for _ in range(parts):
        crc = joined(crc, 0, far // parts)

    assert joined(crc32c(b"before"), 0, far) == crc
    assert without_end(crc, 0, far) == crc32c(b"before")


def test_another_part_gives_another_checksum() -> None:
    whole = crc32c(b"one part, another part")

    assert without_end(whole, crc32c(b"another Part"), 12) != crc32c(b"one part, ")
    assert joined(crc32c(b"one part, "), crc32c(b"another Part"), 12) != whole
