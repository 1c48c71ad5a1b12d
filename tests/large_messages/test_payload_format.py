"""li's 33 bytes before a payload: bytes of li's own classes, round trips, and values that are no segments."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.payload_format import OVERHEAD, deserialize, serialize
from kafka_sidecar.large_messages.segment import Segment

FIRST = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f").bytes
SECOND = UUID("f81d4fae-7dec-41d0-a765-00a0c91e6bf6").bytes
INT32_MAX = (1 << 31) - 1
# Written by li's own DefaultSegmentSerializer.
OF_LI = [
    (
        Segment(FIRST, 1, 3, 12, b"hello"),
        "0010121416000102030405060708090a0b0c0d0e0f00000001000000030000000c68656c6c6f",
    ),
    (Segment(SECOND, 0, 2, 6, b"abc"), "00470aadc6f81d4fae7dec41d0a76500a0c91e6bf6000000000000000200000006616263"),
]
VALID = bytes.fromhex(OF_LI[0][1])


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    count = draw(st.integers(1, INT32_MAX))
    payload = draw(st.binary(max_size=100))
    return Segment(
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.integers(0, count - 1)),
        count,
        draw(st.integers(len(payload), INT32_MAX)),
        payload,
    )


def with_bytes(at: int, data: bytes) -> bytes:
    return VALID[:at] + data + VALID[at + len(data) :]


@pytest.mark.parametrize(("segment", "written"), OF_LI)
def test_the_bytes_are_those_of_li(segment: Segment, written: str) -> None:
    assert serialize(segment).hex() == written
    assert deserialize(bytes.fromhex(written)) == segment


@given(segments())
def test_every_segment_is_read_as_it_was_written_and_has_33_bytes_more(segment: Segment) -> None:
    written = serialize(segment)
    assert len(written) == OVERHEAD + len(segment.payload)
    assert deserialize(written) == segment


@pytest.mark.parametrize("half", [0, 1 << 63])
def test_an_id_whose_checksum_is_zero_is_recognised(half: int) -> None:
    segment = Segment(half.to_bytes(8, "big") * 2, 0, 2, 6, b"abc")
    assert serialize(segment)[1:5] == bytes(4)
    assert deserialize(serialize(segment)) == segment


@pytest.mark.parametrize(
    "value",
    [
        bytes(33), bytes(100), VALID[:32], with_bytes(0, b"\1"), with_bytes(1, b"\1"), with_bytes(21, b"\xff"),
        with_bytes(25, bytes(4)), with_bytes(21, b"\0\0\0\3"), with_bytes(29, b"\0\0\0\4"), b"",
    ],
    ids=[
        "zeros", "more zeros", "short", "version", "checksum", "number below 0", "no segments", "number", "size",
        "nothing",
    ],
)  # fmt: skip
def test_a_value_with_a_wrong_field_is_an_ordinary_value(value: bytes) -> None:
    assert deserialize(value) is None


def test_a_version_of_128_and_more_is_negative_and_therefore_read_as_li_does() -> None:
    assert deserialize(with_bytes(0, b"\x80")) == OF_LI[0][0]


@given(st.binary(max_size=80))
def test_no_bytes_raise(value: bytes) -> None:
    assert deserialize(value) is None or serialize(deserialize(value) or OF_LI[0][0])[1:] == value[1:]


@pytest.mark.parametrize(
    "segment",
    [
        Segment(FIRST[1:], 0, 2, 6, b"abc"),
        Segment(FIRST, 2, 2, 6, b"abc"),
        Segment(FIRST, -1, 2, 6, b"abc"),
        Segment(FIRST, 0, 0, 6, b"abc"),
        Segment(FIRST, 0, 2, 2, b"abc"),
        Segment(FIRST, 0, 1, -1, b""),
        Segment(FIRST, 0, 2, 6, b""),
    ],
    ids=["id", "number", "negative number", "count", "payload", "size", "empty"],
)
def test_a_segment_that_li_would_refuse_is_refused(segment: Segment) -> None:
    with pytest.raises(CodecError):
        segment.check()


def test_a_segment_that_li_accepts_is_accepted() -> None:
    OF_LI[0][0].check()
    Segment(FIRST, 0, 1, 0, b"").check()
