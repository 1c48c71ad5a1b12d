"""Segments put together: in any order, and never to anything but the message that was sent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.large_messages.assembly import Assembly, DamagedError
from kafka_sidecar.large_messages.segment import Segment

ID, OTHER = bytes(range(16)), bytes(16)


def segments(parts: Sequence[Buffer]) -> list[Segment]:
    size = sum(map(len, parts))
    return [Segment(ID, number, len(parts), size, part) for number, part in enumerate(parts)]


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8), st.randoms())
def test_segments_in_any_order_and_twice_become_the_value(parts: list[bytes], shuffle: random.Random) -> None:
    all_of_them = segments(parts) * 2
    shuffle.shuffle(all_of_them)
    value = b"".join(parts)
    assembly = Assembly(all_of_them[0], crc32c(value), b"before", b"after")
    for one in all_of_them[1:]:
        assembly.add(one)
    assembly.check()
    assert b"".join(assembly.pieces) == b"before" + value + b"after"
    assert len(assembly) == len(value) + len(b"before" + b"after")
    assert assembly.bytes_left == 0


def test_a_duplicate_adds_nothing() -> None:
    first, *_ = segments([b"0123456789"] * 3)
    assembly = Assembly(first)
    assembly.add(first)
    assert (assembly.bytes_left, assembly.missing) == (20, {1, 2})


def test_payloads_are_not_copied() -> None:
    parts = [memoryview(bytes(100)), memoryview(bytes(100))]
    first, second = segments(parts)
    assembly = Assembly(second)
    assembly.add(first)
    assert [piece is part for piece, part in zip(assembly.pieces[1:-1], parts, strict=True)] == [True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        Segment(OTHER, 1, 3, 30, b"x"),  # of another message
        Segment(ID, 1, 4, 30, b"x"),
        Segment(ID, 1, 3, 31, b"x"),
        Segment(ID, 1, 3, 30, bytes(21)),  # more than the message announces
    ],
)
def test_a_segment_that_does_not_belong_to_the_message_is_refused(wrong: Segment) -> None:
    assembly = Assembly(Segment(ID, 0, 3, 30, bytes(10)))
    with pytest.raises(DamagedError):
        assembly.add(wrong)


def test_a_value_that_is_not_whole_or_not_the_one_that_was_sent_is_refused() -> None:
    first, second, third = segments([b"0123456789"] * 3)
    assembly = Assembly(first)
    assembly.add(second)
    with pytest.raises(DamagedError, match="lack 10 bytes of 30"):
        assembly.check()
    assembly.add(Segment(ID, 2, 3, 30, b"short"))
    with pytest.raises(DamagedError, match="lack 5 bytes"):
        assembly.check()
    assembly.restart(third)
    assembly.add(first)
    assembly.add(second)
    assembly.check()
    damaged = Assembly(first, crc32c(b"something else"))
    damaged.add(second)
    damaged.add(third)
    with pytest.raises(DamagedError, match="checksum"):
        damaged.check()


def summed(parts: Sequence[Buffer], known: Sequence[bool]) -> list[Segment]:
    """Segments, some of which say what their checksums are."""
    return [
        replace(one, crc=crc32c(one.payload) if is_known else None)
        for one, is_known in zip(segments(parts), known, strict=True)
    ]


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=50), st.booleans()), min_size=1, max_size=8), st.booleans())
def test_the_checksums_of_segments_stand_for_their_bytes(parts: list[tuple[bytes, bool]], says_crc: bool) -> None:
    payloads, known = zip(*parts, strict=True)
    value = b"".join(payloads)
    first, *others = summed(payloads, known)
    assembly = Assembly(first, crc32c(value) if says_crc else None, b"before", b"after")
    for one in others:
        assembly.add(one)
    assembly.check()
    assert bool(assembly.bytes_to_sum) == (not all(known))
    assert assembly.pieces_crc == (crc32c(b"before" + value + b"after") if says_crc or all(known) else None)


def test_segments_with_checksums_of_another_message_are_refused() -> None:
    first, second = summed([b"0123456789"] * 2, [True, True])
    damaged = Assembly(first, crc32c(b"something else"))
    damaged.add(second)
    with pytest.raises(DamagedError, match="checksum"):
        damaged.check()


def test_checksums_are_forgotten_with_their_segments() -> None:
    first, second = summed([b"0123456789"] * 2, [True, True])
    other, wrong = summed([b"9876543210"] * 2, [True, True])
    assembly = Assembly(first, crc32c(b"0123456789" * 2))
    assembly.add(wrong)
    with pytest.raises(DamagedError, match="checksum"):
        assembly.check()
    assembly.restart(first)
    assembly.add(second)
    assembly.check()
    assembly.restart(other)
    summed_first = assembly.bytes_to_sum
    assembly.restart(replace(first, crc=None))
    assert (summed_first, assembly.bytes_to_sum) == (0, 10)
