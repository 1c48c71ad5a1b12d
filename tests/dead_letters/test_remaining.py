"""What a group remembers of a replay: an offset, and a bitmap of what is left before it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.dead_letters.remaining import MAX_METADATA, Remaining, RemainingError


def again(one: Remaining) -> Remaining:
    return Remaining.decode(one.end, one.encode())


def test_nothing_is_replayed_at_first() -> None:
    remaining = Remaining.decode(-1, "")
    assert (remaining.first, 0 in remaining, 99 in remaining) == (0, True, True)


def test_what_is_replayed_in_order_needs_no_metadata() -> None:
    remaining = Remaining()
    for offset in (0, 1, 5):
        remaining.replayed(offset)
    assert (remaining.end, remaining.encode(), remaining.first) == (6, "", 6)
    assert 3 not in remaining


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=80), st.integers(0, 10_000))
def test_a_set_of_offsets_is_remembered_across_runs(steps: list[tuple[int, bool]], base: int) -> None:
    """Against a set: whatever is left or replayed in whatever order, with an end that only grows."""
    remaining, left, end = Remaining.decode(base, ""), set[int](), base
    for offset, is_replayed in steps:
        at = base + offset
        if is_replayed:
            remaining.replayed(at)
            left.discard(at)
            end = max(end, at + 1)
        else:
            remaining.leave(at)
            left.add(at)
        if offset % 7 == 0:
            remaining = again(remaining)
            for one in left:
                if one >= end:  # what is from there on is read again, as nothing says that it was left
                    remaining.leave(one)
    shown = again(remaining)
    for at in range(base, base + 310):
        assert (at in shown) == (at >= end or at in left)
    assert shown.first == min([one for one in left if one < end] or [end])


def test_what_is_left_after_the_last_one_that_is_replayed_needs_no_memory() -> None:
    remaining = Remaining()
    remaining.leave(7)
    remaining.replayed(5)
    assert (remaining.encode(), remaining.first) == ("", 6)
    assert 7 in again(remaining)


def test_what_is_left_before_the_first_bit_is_kept() -> None:
    remaining = Remaining(100)
    remaining.leave(50)
    remaining.leave(3)
    assert [one for one in range(100) if one in again(remaining)] == [3, 50]


def test_deleted_letters_are_forgotten() -> None:
    remaining = Remaining()
    for offset in range(40):
        remaining.leave(offset)
    remaining.replayed(40)
    remaining.forget_before(21)
    assert remaining.first == 21
    assert [one for one in range(41) if one in again(remaining)] == list(range(21, 40))
    remaining.forget_before(1000)
    assert (remaining.first, remaining.end, remaining.encode()) == (1000, 1000, "")
    remaining.forget_before(5)
    assert remaining.end == 1000


@pytest.mark.bulk
def test_a_million_letters_in_long_runs_fit_and_too_many_without_order_do_not() -> None:
    runs, chance, mixed = Remaining(), random.Random(7), Remaining()
    for offset in range(1_000_000):
        if offset // 1000 % 2:
            runs.leave(offset)
    runs.replayed(1_000_000)
    assert len(runs.encode()) <= MAX_METADATA
    for offset in range(20_000):
        if chance.random() < 0.5:
            mixed.leave(offset)
    mixed.replayed(20_000)
    assert len(mixed.encode()) <= MAX_METADATA
    for offset in range(20_000, 60_000):
        if chance.random() < 0.5:
            mixed.leave(offset)
    mixed.replayed(60_000)
    assert len(mixed.encode()) > MAX_METADATA


@pytest.mark.parametrize(
    "metadata", ["hello", "1:2", "1:x:eJwDAAAAAAE=", "2:0:eJwDAAAAAAE=", "1:0:!!", "1:0:AAAA", "1:99:eJwDAAAAAAE="]
)
def test_metadata_of_others_are_no_memory_of_a_replay(metadata: str) -> None:
    with pytest.raises(RemainingError):
        Remaining.decode(9, metadata)


def test_a_bitmap_that_unpacks_to_gigabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    remaining = Remaining()
    remaining.leave(0)
    remaining.leave(80_000)
    remaining.replayed(80_001)
    monkeypatch.setattr("kafka_sidecar.dead_letters.remaining.MAX_BITMAP", 100)
    with pytest.raises(RemainingError):
        again(remaining)
