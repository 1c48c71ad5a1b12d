"""What is remembered of earlier intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st

from kafka_sidecar.audit.memory import MAX_RANGES, AckMemory, Delivered, Int64List, Recent


def test_the_entries_used_last_are_kept() -> None:
    recent = Recent(3)
    recent.put(0, "used again and again")
    for number in range(1, 100):
        recent.put(number, str(number))
        assert recent.get(0) == "used again and again"
        assert len(recent) <= 6
    assert recent.get(99) == "99"
    assert recent.get(1) is None


def put(memory: AckMemory, offset: int, timestamp: int = 1000, partition: int = 0) -> bool:
    """Whether it was acknowledged before."""
    return memory.of("t", partition).put(offset, timestamp)


def test_a_batch_is_known_by_offset_and_timestamp() -> None:
    memory = AckMemory(100)
    assert [put(memory, 0), put(memory, 10), put(memory, 5)] == [False, False, False]
    assert [put(memory, 0), put(memory, 10), put(memory, 5)] == [True, True, True]
    assert not put(memory, 5, 2000)
    assert put(memory, 5, 2000)
    assert not put(memory, 5, 2000, partition=1)


def test_the_last_batch_is_known_however_often_it_comes() -> None:
    memory = AckMemory(3)
    found = memory.of("orders", 0)
    known = [found.put(7, time) for time in (1000, 1000, 1000)]
    assert known == [False, True, True]
    found = memory.of("orders", 0)  # of the next generation
    assert [found.put(7, time) for time in (1000, 1000, 2000, 2000)] == [True, True, False, True]


def test_the_batches_acknowledged_last_are_known_and_the_memory_is_bounded() -> None:
    memory = AckMemory(10)
    for offset in range(100):
        assert not put(memory, offset, partition=offset % 3)
    known = [offset for offset in reversed(range(100)) if put(memory, offset, partition=offset % 3)]
    assert set(range(90, 100)) <= set(known)
    assert len(known) <= 20


def test_a_partitions_memory_goes_out_of_date() -> None:
    memory = AckMemory(2)
    first = memory.of("t", 0)
    first.put(0, 1000)
    assert first.generation == memory.generation
    first.put(1, 1000)
    assert first.generation != memory.generation
    assert memory.of("t", 0).put(1, 1000)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5))))
def test_offsets_that_were_sent_before_are_counted(batches: list[tuple[int, int]]) -> None:
    delivered, seen = Delivered(), set[int]()
    for first, more in batches:
        offsets = set(range(first, first + more + 1))
        assert delivered.add(first, first + more, 1000) == len(offsets & seen)
        seen |= offsets


def test_a_part_of_the_last_range_is_a_repetition_unless_it_is_later() -> None:
    seen = Delivered()
    assert [seen.add(*one) for one in [(0, 4, 50), (10, 19, 100), (12, 15, 100), (10, 19, 90)]] == [0, 0, 4, 10]
    assert [seen.add(*one) for one in [(0, 4, 50), (12, 15, 101), (12, 15, 101), (10, 11, 90)]] == [5, 0, 4, 0]


def test_only_the_latest_ranges_are_kept() -> None:
    delivered = Delivered()
    for number in range(MAX_RANGES + 1):
        delivered.add(10 * number, 10 * number, 1000)
    assert delivered.add(0, 0, 1000) == 0
    assert delivered.add(10 * MAX_RANGES, 10 * MAX_RANGES, 1000) == 1


def test_the_offsets_of_a_topic_that_was_created_again_are_new() -> None:
    delivered = Delivered()
    delivered.add(0, 9, 1000)
    delivered.add(10, 19, 3000)
    assert delivered.add(0, 9, 3001) == 0
    assert delivered.add(0, 9, 1000) == 10
    assert delivered.add(10, 19, 2000) == 0


def test_a_read_that_goes_on_beyond_what_was_sent_is_partly_a_repetition_whatever_its_time() -> None:
    delivered = Delivered()
    delivered.add(0, 9, 1000)
    assert delivered.add(5, 14, 2000) == 5
    assert delivered.add(0, 14, 2000) == 15


@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from((1000, 2000))), max_size=40))
def test_what_was_acknowledged_is_known_before_it_comes_again(batches: list[tuple[int, int]]) -> None:
    memory = AckMemory(15)
    for offset, timestamp in batches:
        is_known = memory.of("t", 0).knows(offset, timestamp)
        assert put(memory, offset, timestamp) == is_known


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8), st.sampled_from((1000, 2000))), max_size=60))
def test_the_offsets_that_a_reader_has_are_those_that_are_counted_as_sent_before(
    batches: list[tuple[int, int, int]],
) -> None:
    seen = Delivered()
    for first, more, timestamp in batches:
        last = first + more
        known = [offset for offset in range(first, last + 1) if seen.has(offset, first, last, timestamp)]
        assert seen.add(first, last, timestamp) == len(known)


integers = some.integers(-(1 << 63), (1 << 63) - 1)


@given(some.lists(integers))
def test_a_list_has_what_was_appended(values: list[int]) -> None:
    longs = Int64List()
    for value in values:
        longs.append(value)
    assert list(longs) == values
    assert [longs.get(index) for index in range(len(longs))] == values


@given(some.lists(some.tuples(some.integers(0, 400), some.integers(1, 1000))))
def test_integers_that_nothing_was_added_to_are_zero(added: list[tuple[int, int]]) -> None:
    longs, sums = Int64List(), [0] * (max((index for index, _ in added), default=-1) + 1)
    for index, value in added:
        longs.add(index, value)
        sums[index] += value
    assert list(longs) == sums


@given(some.sets(some.integers(-50, 50)), some.integers(-60, 60))
def test_a_value_is_found_where_it_is(values: set[int], wanted: int) -> None:
    longs = Int64List()
    for value in sorted(values):
        longs.append(value)
    assert longs.find(wanted) == (sorted(values).index(wanted) if wanted in values else -1)


@pytest.mark.parametrize("index", [-1, 1])
def test_there_is_nothing_outside_of_a_list(index: int) -> None:
    longs = Int64List()
    longs.append(5)
    with pytest.raises(IndexError):
        longs.get(index)
    with pytest.raises(IndexError):
        longs.add(-1, 1)
