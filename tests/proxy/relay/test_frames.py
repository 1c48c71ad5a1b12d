"""Frames: what is not edited leaves in the chunks in which it came; what is edited leaves whole."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from struct import pack, unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.telemetry.metrics import Buffered

HEADER = 8


def frame(kind: int, body: bytes) -> bytes:
    return pack(">ii", 4 + len(body), kind) + body


class Reader:
    """A direction in which kind 1 is edited and kind -1 cannot be read; everything else passes."""

    def __init__(self) -> None:
        self.buffered = Buffered()
        self.frames = Frames(self.begin, HEADER, Account(MemoryBudget(1 << 20, self.buffered)))
        self.edit: Callable[[bytes], bytes] = bytes.upper
        self.seen: list[int] = []

    def begin(self, data: bytes, at: int) -> int:
        length, kind = unpack_from(">ii", data, at)
        if kind == -1:
            raise CodecError("kind -1")
        self.seen.append(kind)
        if kind == 1:
            self.frames.collect(self.edit)
        if kind == 3:
            self.frames.swallow()
        if kind == 2:
            self.frames.insert(frame(9, b"before"))
        return int(length) + 4

    def hold(self, whole: bytes) -> bytes:
        """An edit about whose frame nothing is decided yet."""
        self.frames.hold(len(whole))
        return b""


def chunks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a != b]


kinds = st.sampled_from([0, 1, 2, 7])
frames = st.lists(st.tuples(kinds, st.binary(max_size=40)), max_size=8)


@given(frames, st.lists(st.integers(0, 1000), max_size=12))
def test_the_cuts_between_chunks_do_not_change_what_leaves(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(kind, body) for kind, body in sent)
    expected = b"".join(
        (frame(9, b"before") if kind == 2 else b"") + (frame(kind, body).upper() if kind == 1 else frame(kind, body))
        for kind, body in sent
    )
    reader = Reader()
    assert b"".join(reader.frames.feed(chunk) for chunk in chunks_of(data, cuts)) == expected
    assert reader.seen == [kind for kind, _ in sent]
    assert reader.frames.between_frames
    assert reader.buffered.bytes == 0


def test_the_bytes_of_a_frame_count_as_buffered_until_it_has_left() -> None:
    reader = Reader()
    whole = frame(1, b"a" * 90)
    for end in (10, 60, 97):
        reader.frames.feed(whole[reader.buffered.bytes : end])
        assert reader.buffered.bytes == end
    assert reader.frames.feed(whole[97:]) == whole.upper()
    assert reader.buffered.bytes == 0


def test_bytes_that_leave_as_they_come_or_are_swallowed_are_not_buffered() -> None:
    reader = Reader()
    reader.frames.feed(frame(0, b"relayed")[:12])
    assert reader.buffered.bytes == 0
    reader = Reader()
    reader.frames.feed(frame(3, b"swallowed")[:12])
    assert reader.buffered.bytes == 0


def test_a_chunk_that_is_not_edited_leaves_as_the_same_object() -> None:
    reader = Reader()
    chunk = frame(0, b"x" * 100) + frame(7, b"y" * 100) + frame(0, b"z" * 1000)[:500]
    rest = frame(0, b"z" * 1000)[500:]
    assert reader.frames.feed(chunk) is chunk
    assert reader.frames.feed(rest) is rest


def test_a_frame_whose_edit_changes_nothing_leaves_as_the_same_object() -> None:
    chunk = frame(1, b"SAME")
    reader = Reader()
    reader.edit = lambda whole: whole
    assert reader.frames.feed(chunk) is chunk


def test_an_incomplete_header_is_buffered_until_it_can_be_checked() -> None:
    reader = Reader()
    data = frame(0, b"body")
    assert reader.frames.feed(data[:5]) == b""
    assert reader.frames.feed(data[5:]) == data


def test_frames_before_an_unreadable_one_still_leave() -> None:
    reader = Reader()
    good = frame(0, b"good")
    assert reader.frames.feed(good + frame(-1, b"bad") + good) == good
    assert str(reader.frames.error) == "kind -1"


def test_a_frame_that_is_held_is_buffered_once_however_it_came() -> None:
    whole = frame(1, b"a" * 90)
    for cuts in ([], [40]):
        reader = Reader()
        reader.edit = reader.hold
        for chunk in chunks_of(whole, cuts):
            reader.frames.feed(chunk)
        assert reader.buffered.bytes == len(whole)
        assert reader.frames.release(b"decided") == b"decided"
        assert reader.buffered.bytes == 0


def test_nothing_is_read_after_the_frame_that_stops() -> None:
    reader = Reader()
    reader.edit = reader.hold
    assert reader.frames.feed(frame(1, b"last") + frame(0, b"more")) == b""
    reader.frames.stop(CodecError("it is the last one"))
    assert reader.frames.release(b"decided") == b"decided"
    assert reader.seen == [1]


class Skips:
    """An edit that need not see the frame's bytes after the first piece."""

    buffers = False

    def __init__(self) -> None:
        self.skip = 0
        self.lasts: list[bool] = []

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        self.lasts.append(last)
        self.skip = 1000
        return None


def test_an_edit_that_skips_sees_the_end_of_its_frame() -> None:
    edit, whole = Skips(), frame(0, b"x" * 92)

    def begin(data: bytes, at: int) -> int:
        direction.edit(edit)
        return len(whole)

    direction = Frames(begin, HEADER, Account(MemoryBudget(1 << 20, Buffered())))
    for piece in chunks_of(whole, [20, 50]):
        assert direction.feed(piece) == piece
    assert edit.lasts == [False, True]
    assert direction.between_frames


@pytest.mark.parametrize("first", [frame(1, b"x" * 2000)[:100], frame(1, b"x" * 40)], ids=["in a frame", "after one"])
def test_the_bytes_of_a_lost_connection_are_freed_when_it_is_dropped(first: bytes) -> None:
    reader = Reader()
    reader.edit = reader.hold
    reader.frames.feed(first)
    second = b"y" * 1000
    references = sys.getrefcount(second)
    reader.frames.feed(second)
    assert reader.buffered.bytes > 0
    assert sys.getrefcount(second) > references
    reader.frames.drop()
    assert reader.buffered.bytes == 0
    assert sys.getrefcount(second) == references
