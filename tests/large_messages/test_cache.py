"""The cache of segments: limited in bytes, the least recently used ones are removed first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.large_messages import cache as module
from kafka_sidecar.large_messages.assembly import Assembly
from kafka_sidecar.large_messages.cache import ENTRY_BYTES, Place, SegmentCache, Unfinished
from kafka_sidecar.large_messages.segment import Segment

SIZE = 100
ROOM = 3 * (SIZE + ENTRY_BYTES)
FIRST, SECOND = Place("orders", 0, 5), Place("orders", 1, 5)


def segment(number: int, size: int = SIZE) -> Segment:
    return Segment(bytes(16), number, 1000, 100_000, bytes(size))


def place(offset: int) -> Place:
    return Place(bytes(16), 0, offset)


def test_the_segment_that_was_not_used_for_longest_is_removed() -> None:
    cache = SegmentCache(ROOM)
    for offset in range(3):
        cache.put(place(offset), segment(offset))
    assert cache.get(place(0)) == segment(0)
    cache.put(place(3), segment(3))
    assert cache.get(place(1)) is None
    assert [cache.get(place(offset)) for offset in (0, 2, 3)] == [segment(0), segment(2), segment(3)]
    assert (cache.hits, cache.misses, len(cache)) == (4, 1, 3)


def test_a_segment_that_is_larger_than_the_cache_is_not_kept() -> None:
    cache = SegmentCache(ROOM)
    cache.put(place(0), segment(0))
    cache.put(place(1), segment(1, ROOM))
    assert cache.get(place(1)) is None
    assert cache.get(place(0)) is not None


def test_a_smaller_limit_applies_at_once() -> None:
    cache = SegmentCache(ROOM)
    for offset in range(3):
        cache.put(place(offset), segment(offset))
    cache.resize(ROOM // 3)
    assert (len(cache), cache.bytes) == (1, SIZE + ENTRY_BYTES)
    cache.resize(0)
    assert (len(cache), cache.bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 400))))
def test_it_never_has_more_bytes_than_its_limit(puts: list[tuple[int, int]]) -> None:
    cache, last = SegmentCache(1500), dict[int, int]()
    for offset, size in puts:
        cache.put(place(offset), segment(offset, size))
        last[offset] = size
        assert cache.bytes <= 1500
    kept = {offset: found for offset in last if (found := cache.get(place(offset))) is not None}
    assert cache.bytes == sum(len(one.payload) + ENTRY_BYTES for one in kept.values())


def test_views_of_one_object_count_as_that_object_until_the_last_one_is_removed() -> None:
    whole = bytes(1000)
    cache = SegmentCache(4000)
    for offset in range(2):
        cache.put(place(offset), replace(segment(offset), payload=memoryview(whole)[:SIZE]))
    assert cache.bytes == len(whole) + 2 * ENTRY_BYTES
    cache.put(place(0), segment(0))
    assert cache.bytes == len(whole) + SIZE + 2 * ENTRY_BYTES
    cache.put(place(1), segment(1))
    assert cache.bytes == 2 * SIZE + 2 * ENTRY_BYTES


def test_a_view_of_what_is_larger_than_the_cache_is_not_kept() -> None:
    cache = SegmentCache(ROOM)
    cache.put(place(0), segment(0))
    cache.put(place(1), replace(segment(1), payload=memoryview(bytes(ROOM))[:SIZE]))
    assert cache.get(place(1)) is None
    assert cache.bytes == SIZE + ENTRY_BYTES


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(1, 50)), max_size=30))
def test_no_view_makes_it_larger_than_its_limit(puts: list[tuple[int, int, int]]) -> None:
    cache, frames = SegmentCache(3000), [bytes(100), bytes(1500), bytes(4000)]
    for offset, frame, size in puts:
        cache.put(place(offset), replace(segment(offset), payload=memoryview(frames[frame])[:size]))
        assert cache.bytes <= 3000
    kept = [found for offset in range(10) if (found := cache.get(place(offset))) is not None]
    objects = {id(view.obj): memoryview(view.obj).nbytes for one in kept if isinstance(view := one.payload, memoryview)}
    assert cache.bytes == sum(objects.values()) + ENTRY_BYTES * len(kept)


def assembly(size: int) -> Assembly:
    return Assembly(Segment(bytes(16), 0, 2, size, b"x"))


def test_an_assembly_is_taken_once() -> None:
    unfinished, one = Unfinished(1000), assembly(100)
    unfinished.put(FIRST, one)
    assert unfinished.bytes == 100
    assert unfinished.take(SECOND) is None
    assert unfinished.take(FIRST) is one
    assert unfinished.take(FIRST) is None
    assert unfinished.bytes == 0


def test_the_oldest_is_forgotten_first_and_one_is_always_kept() -> None:
    unfinished, large = Unfinished(150), assembly(500)
    unfinished.put(FIRST, assembly(100))
    unfinished.put(SECOND, large)
    assert unfinished.take(FIRST) is None
    assert unfinished.take(SECOND) is large


def test_a_newer_assembly_of_the_same_message_replaces_the_older_one() -> None:
    unfinished, newer = Unfinished(1000), assembly(200)
    unfinished.put(FIRST, assembly(100))
    unfinished.put(FIRST, newer)
    assert unfinished.bytes == 200
    assert unfinished.take(FIRST) is newer


def test_of_tiny_segments_there_are_not_so_many_that_collecting_garbage_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_SEGMENTS", 3)
    cache = SegmentCache(1 << 30)
    for offset in range(5):
        cache.put(place(offset), segment(offset, 1))
    assert [cache.get(place(offset)) is not None for offset in range(5)] == [False, False, True, True, True]
