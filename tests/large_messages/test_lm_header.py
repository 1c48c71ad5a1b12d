"""The header `_lm`: bytes that li's own classes have written, every header back, and what is rejected."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.lm_header import LEGACY, LEGACY_V2, V3, LmHeader, with_safe_offsets, with_timestamps

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
NOW, LIMIT = 1_700_000_000_000, 1 << 20


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


def records(*new: NewRecord, **header: int) -> Records:
    (batch,) = batches(build_batch(list(new), **header))
    return batch.records(LIMIT)


def headers(of: Records) -> list[list[tuple[str, bytes | None]]]:
    return [[(header.key, header.value) for header in record.headers] for record in of]


def test_each_record_gets_its_timestamp_in_8_bytes_after_its_own_headers() -> None:
    mine = Header("mine", b"x")
    got = with_timestamps(
        records(NewRecord(b"a", timestamp_delta=5), NewRecord(b"b", timestamp_delta=-1, headers=(mine,))), NOW
    )
    assert headers(got) == [
        [("_t", b"\0\0\0\0\0\0\0\5")], [("mine", b"x"), ("_t", NOW.to_bytes(8, "big"))],
    ]  # fmt: skip


def test_a_record_that_is_produced_again_to_another_topic_keeps_its_first_timestamp() -> None:
    before = records(NewRecord(b"a", timestamp_delta=9, headers=(Header("_t", b"\0\0\0\0\0\0\0\1"),)))
    assert with_timestamps(before, NOW) is before


def test_records_after_which_a_large_message_is_incomplete_get_the_safe_offset() -> None:
    """li's mixed log: M0 at 0, M1.0 at 1, M2 at 2, M3.0 and its end at 3 and 4, the end of M1 at 5."""
    intervals = Intervals()
    intervals.complete("t", 0, b"M1", 1, 5)
    intervals.complete("t", 0, b"M3", 3, 4)
    delivered = records(NewRecord(b"M0"), NewRecord(b"M2", offset_delta=2), NewRecord(b"M3", offset_delta=4),
                        NewRecord(b"M1", offset_delta=5), NewRecord(b"M6", offset_delta=6))  # fmt: skip
    got = with_safe_offsets(0, delivered, lambda committed: intervals.safe_offset("t", 0, committed))
    one = [("_so", b"\0\0\0\0\0\0\0\1")]
    assert headers(got) == [[], one, one, [], []]


def test_without_incomplete_messages_the_records_are_the_same() -> None:
    before = records(NewRecord(b"a"), NewRecord(b"b"))
    assert with_safe_offsets(7, before, lambda committed: committed) is before
