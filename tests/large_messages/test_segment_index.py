"""Which segments were seen where: a window knows what it has walked over, and what it covers alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.segment_index import (
    FULL_BLOCK,
    MAX_LOOK_BACK_BYTES,
    MAX_WINDOWS,
    SegmentIndex,
    SegmentIndexes,
    Window,
)

ID, OTHER = bytes(range(16)), bytes(16)
GAP = 1000


def segment(number: int, count: int = 3, id_: bytes = ID) -> Segment:
    return Segment(id_, number, count, 1000, b"x")


def part(offset: int, number: int = 0, count: int = 3, id_: bytes = ID, is_carrier: bool = False) -> Part:
    return Part(offset, segment(number, count, id_), None, is_carrier, None, True)


def walked(start: int, end: int, *parts: Part, look_back: int = GAP, delivers: bool = False) -> Window:
    window = Window(start, look_back)
    for one in parts:
        window.add(one, is_delivered=delivers)
    window.extend(end)
    return window


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=8), st.integers(0, 60))
def test_offsets_count_as_read_if_they_were(steps: list[tuple[int, int]], start: int) -> None:
    window, read = Window(0, GAP), set[int]()
    for skipped, size in steps:
        window.skip(window.end + skipped)
        read |= {*range(window.end, window.end + size)}
        window.extend(window.end + size)
    end = start + 20
    while (missing := window.unread(start, end)) is not None:
        expected = next(at for at in range(start, end) if at not in read)
        assert missing[0] == expected
        assert not read.intersection(range(*missing))
        window.insert(*missing)
        read |= {*range(*missing)}
    assert read.issuperset(range(start, end))


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 12), st.integers(1, 9))
def test_a_window_says_what_a_list_of_all_segments_says(numbers: list[int], gap: int, every: int) -> None:
    """Where segments are, at any position, whatever was kept and gone on with between."""
    index, count = SegmentIndex(), 5
    window = Window(0, gap)
    for offset, number in enumerate(numbers):
        if offset % every == 0:
            index.keep(window)
            window = index.window(offset, gap) or Window(offset, gap)
            assert window.unread(window.first, offset) is None
        before = {number: at for at, number in enumerate(numbers[:offset]) if at >= offset - gap}
        first = {number: at for at, number in reversed([*enumerate(numbers[:offset])]) if at >= offset - gap}
        wanted = {*range(count)} - {number}
        is_whole = number not in before and before.keys() == wanted
        assert window.others(segment(number, count)) == (first if is_whole else None)
        assert window.nearest(segment(number, count)) == {one: before[one] for one in before if one != number}
        window.add(part(offset, number, count))


def test_segments_of_other_messages_do_not_count() -> None:
    window = walked(0, 10, part(1), part(2, 1, id_=OTHER), part(3, 1, count=4))
    assert window.nearest(segment(2)) == {0: 1}
    assert window.others(segment(2)) is None


def test_a_message_with_a_carrier_in_the_gap_is_not_completed_again() -> None:
    window = walked(0, 10, part(1, 2, is_carrier=True), part(3, 0))
    assert window.others(segment(1)) is None
    window.extend(1 + GAP)
    assert window.others(segment(1)) is None
    window.extend(2 + GAP)
    window.add(part(2 + GAP, 2))
    assert window.others(segment(1)) == {0: 3, 2: 2 + GAP}


def test_carriers_count_as_delivered_as_long_as_the_gap_has_them() -> None:
    assert not walked(0, 10, part(1, 2, is_carrier=True)).has_delivered(segment(2))
    window = walked(0, 10, part(1, 2, is_carrier=True), delivers=True)
    assert window.has_delivered(segment(2))
    assert not window.has_delivered(segment(2, id_=OTHER))
    window.extend(1 + GAP)
    assert window.has_delivered(segment(2))
    window.extend(2 + GAP)
    assert not window.has_delivered(segment(2))


def test_who_goes_on_elsewhere_knows_what_is_before_that_alone() -> None:
    index = SegmentIndex()
    index.keep(walked(0, 100, part(10), part(50, 1, is_carrier=True), delivers=True))
    found = index.window(50, GAP)
    assert found is not None
    assert (found.nearest(segment(2)), found.has_delivered(segment(2))) == ({0: 10}, False)
    assert index.window(101, GAP) is None


def test_what_is_read_again_replaces_what_was_known() -> None:
    """After a log was truncated."""
    index = SegmentIndex()
    index.keep(walked(0, 100, part(10), part(50, 1)))
    again = index.window(40, GAP)
    assert again is not None
    again.add(part(60, 1))
    again.extend(100)
    index.keep(again)
    found = index.window(100, GAP)
    assert found is not None
    assert found.nearest(segment(2)) == {0: 10, 1: 60}


def test_readers_at_several_positions_do_not_disturb_each_other() -> None:
    index, positions = SegmentIndex(), [10_000 * number for number in range(8)]
    for at in positions:
        index.keep(walked(at, at + GAP))
    for step in range(20):
        for number, at in enumerate(positions):
            window = index.window(at + GAP + 100 * step, GAP)
            assert window is not None
            assert window.unread(window.first, window.end) is None, (number, step)
            for offset in range(window.end, window.end + 100):
                window.add(part(offset))
            index.keep(window)


def test_a_window_does_not_grow_with_the_log() -> None:
    window, sizes = Window(0, GAP), list[int]()
    for offset in range(30 * GAP):
        window.add(part(offset, id_=offset.to_bytes(16, "big")))
        if offset % GAP == GAP - 1:
            sizes.append(sum(size for _, size in window.blocks))
    assert max(sizes[2:]) <= sizes[1] * 1.1
    assert len([*window.blocks]) <= GAP // FULL_BLOCK + 3


def test_of_many_windows_of_a_partition_the_oldest_is_forgotten() -> None:
    index = SegmentIndex()
    for number in range(MAX_WINDOWS + 1):
        index.keep(walked(100 * number, 100 * number + 10))
    assert index.window(10, 10) is None
    assert all(index.window(100 * number + 10, 10) for number in range(1, MAX_WINDOWS + 1))


def test_a_reader_that_goes_on_leaves_no_windows_where_it_was() -> None:
    indexes = SegmentIndexes()
    index = indexes.of(ID, 0, False)
    for at in range(0, 5000, 10):
        index.keep(index.window(at, GAP) or Window(at, GAP)) if at == 0 else None
        window = index.window(at, GAP) or Window(at, GAP)
        window.extend(at + 10)
        index.keep(window)
    assert indexes.bytes < 2000


def test_all_windows_together_are_limited_in_bytes() -> None:
    indexes = SegmentIndexes(limit=100_000)
    for partition in range(100):
        index = indexes.of(ID, partition, False)
        index.keep(walked(0, GAP, *[part(at) for at in range(0, GAP, 10)]))
        assert index.window(GAP, GAP) is not None
        assert indexes.bytes <= 100_000
    assert indexes.of(ID, 0, False).window(GAP, GAP) is None
    indexes.of(ID, 99, False).keep(walked(GAP, GAP + 1))


def test_a_window_that_alone_is_too_large_is_not_kept() -> None:
    indexes = SegmentIndexes(limit=1000)
    indexes.of(ID, 0, False).keep(walked(0, GAP, *[part(at) for at in range(GAP)]))
    assert (indexes.bytes, indexes.of(ID, 0, False).window(GAP, GAP)) == (0, None)


def test_partitions_and_isolation_levels_have_their_own_windows() -> None:
    indexes = SegmentIndexes()
    indexes.of(ID, 0, False).keep(walked(0, 10))
    assert indexes.of(ID, 0, False).window(10, GAP) is not None
    for place in ((ID, 0, True), (ID, 1, False), ("orders", 0, False)):
        assert indexes.of(*place).window(10, GAP) is None


@pytest.mark.parametrize("is_seen", [False, True])
def test_what_may_be_read_to_see_the_gap_is_counted_until_it_was_seen(is_seen: bool) -> None:
    index = SegmentIndex()
    window = walked(500, 600)
    window.room -= 1
    if is_seen:
        window.insert(0, 500)
    index.keep(window)
    found = index.window(600, GAP)
    assert found is not None
    assert (found.room == MAX_LOOK_BACK_BYTES) is is_seen
