"""Which segments were seen where: ranges grow together, and only what they cover is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.large_messages import segment_index as module
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.segment_index import MAX_RANGES, MAX_SEEN, SegmentIndex, SegmentIndexes

ID = bytes(range(16))


def part(offset: int, number: int = 0) -> Part:
    return Part(offset, Segment(ID, number, 100, 1000, b"x"), None, False, None, True)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)), max_size=12), st.integers(0, 60))
def test_offsets_count_as_read_if_a_range_has_them(ranges: list[tuple[int, int]], start: int) -> None:
    index, read = SegmentIndex(), set[int]()
    for first, size in ranges:
        index.note(first, first + size, [part(first)])
        read |= {*range(first, first + size)}
    end = start + 20
    assert index.first_unread(start, end) == next((at for at in range(start, end) if at not in read), None)
    seen = [one.offset for one in index.earlier(ID, start, end)]
    assert seen == sorted({first for first, _ in ranges if start <= first < end})


def test_segments_are_found_by_message_and_offset() -> None:
    index = SegmentIndex()
    index.note(0, 10, [part(3, 1), part(5, 2)])
    index.note(10, 20, [part(12, 1)])
    assert [(one.offset, one.number) for one in index.earlier(ID, 4, 13)] == [(5, 2), (12, 1)]
    assert index.earlier(bytes(16), 0, 20) == []


def test_of_many_ranges_the_one_that_was_not_used_for_longest_is_forgotten() -> None:
    index = SegmentIndex()
    for at in range(MAX_RANGES):
        index.note(100 * at, 100 * at + 10)
    index.note(10, 20)
    index.note(100 * MAX_RANGES, 100 * MAX_RANGES + 10)
    assert index.first_unread(0, 20) is None
    assert index.first_unread(100, 110) == 100


def test_a_range_with_too_many_segments_forgets_the_older_half_of_its_offsets() -> None:
    index = SegmentIndex()
    index.note(0, MAX_SEEN, [part(at) for at in range(MAX_SEEN)])
    assert index.first_unread(0, MAX_SEEN) is None
    index.note(MAX_SEEN, MAX_SEEN + 1, [part(MAX_SEEN)])
    assert index.first_unread(0, MAX_SEEN) == 0
    middle = MAX_SEEN // 2
    assert index.first_unread(middle, MAX_SEEN + 1) is None
    assert len(index.earlier(ID, 0, MAX_SEEN + 1)) == MAX_SEEN + 1 - middle


def test_partitions_and_isolation_levels_have_their_own_index(monkeypatch: object) -> None:
    indexes = SegmentIndexes()
    one = indexes.of(ID, 0, False)
    assert indexes.of(ID, 0, False) is one
    assert len({id(indexes.of(*key)) for key in ((ID, 0, True), (ID, 1, False), ("orders", 0, False))} | {id(one)}) == 4
    for partition in range(2, module.MAX_PARTITIONS):
        indexes.of(ID, partition, False)
    assert indexes.of(ID, 0, False) is not one
