"""Frames in pieces have the bytes of the whole frame."""

from __future__ import annotations

import os

from kafka_sidecar.codec.pieces import MIN_BYTES, MIN_PIECE_BYTES, Pieces, in_pieces, whole


def test_large_parts_are_not_copied_and_small_neighbours_are_joined() -> None:
    value = memoryview(os.urandom(MIN_BYTES))

    frame = in_pieces([b"a", b"b", value, b"c", b"d"])

    assert isinstance(frame, Pieces)
    assert frame.parts == (b"ab", value, b"cd")
    assert frame.parts[1] is value
    assert len(frame) == MIN_BYTES + 4
    assert whole(frame) == b"ab" + bytes(value) + b"cd"


def test_a_frame_that_is_not_large_is_one_object() -> None:
    assert in_pieces([b"a", memoryview(bytes(MIN_PIECE_BYTES)), b"b"]) == b"a" + bytes(MIN_PIECE_BYTES) + b"b"


def test_the_only_part_stays_the_same_object() -> None:
    for size in (10, MIN_PIECE_BYTES, 2 * MIN_BYTES):
        frame = bytes(size)
        assert in_pieces([frame]) is frame
        assert whole(frame) is frame
