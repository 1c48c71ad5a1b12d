"""The header `_lm`: bytes that li's own classes have written, every header back, and what is rejected."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.lm_header import LEGACY, LEGACY_V2, V3, LmHeader

FIRST = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f").bytes
SECOND = UUID("f81d4fae-7dec-41d0-a765-00a0c91e6bf6").bytes
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
# Written by li's own LargeMessageHeaderValue.
OF_LI = [
    (LmHeader(LEGACY, FIRST, 1, 3), "0008090a0b0c0d0e0f00010203040506070000000100000003"),
    (LmHeader(LEGACY_V2, FIRST, 1, 3, 12), "0108090a0b0c0d0e0f000102030405060700000001000000030000000c"),
    (LmHeader(V3, FIRST, 1, 3, 12), "0208090a0b0c0d0e0f000102030405060700000001000000030000000c"),
    (LmHeader(V3, FIRST, 1, 3, 12).as_delivered(), "0200000000000000000000000000000000ffffffff000000030000000c"),
    (LmHeader(V3, SECOND, 0, 2, 6), "02a76500a0c91e6bf6f81d4fae7dec41d0000000000000000200000006"),
]


@pytest.mark.parametrize(("header", "written"), OF_LI)
def test_the_bytes_are_those_of_li(header: LmHeader, written: str) -> None:
    assert header.encode().hex() == written
    assert LmHeader.decode(bytes.fromhex(written)) == header


@given(st.builds(LmHeader, st.sampled_from([LEGACY_V2, V3]), st.binary(min_size=16, max_size=16), INT32, INT32, INT32))
def test_every_header_is_read_as_it_was_written(header: LmHeader) -> None:
    assert LmHeader.decode(header.encode()) == header


@given(st.binary(max_size=40))
def test_other_bytes_are_rejected_by_their_length_alone(data: bytes) -> None:
    if len(data) < 25:
        with pytest.raises(CodecError, match="expected at least 25 bytes"):
            LmHeader.decode(data)
    else:
        size = LmHeader.decode(data).size
        assert size == (int.from_bytes(data[25:], "big", signed=True) if len(data) == 29 else -1)


def test_a_header_without_a_value_is_rejected() -> None:
    with pytest.raises(CodecError, match="null"):
        LmHeader.decode(None)


def test_a_header_that_li_has_delivered_is_recognised() -> None:
    header = LmHeader(V3, FIRST, 1, 3, 12)
    assert not header.is_delivered
    assert header.as_delivered().is_delivered
    assert LmHeader(V3, FIRST, -1, 3).is_delivered
    assert LmHeader(V3, bytes(16), 1, 3).is_delivered
