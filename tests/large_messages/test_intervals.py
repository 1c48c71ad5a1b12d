"""Safe offsets: the closed form against a replay of each log, and li's numbers for its own test log."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.large_messages.intervals import Intervals

TOPIC, OTHER = b"t" * 16, b"o" * 16

# A log: at each offset a plain record, or the slice of a message. The last slice of a message completes it.
Log = list[str | None]
logs = st.lists(st.none() | st.sampled_from("abcdef"), max_size=24)

# li's test log, "SYN": M0 at 0 and 5, M1 at 1 and 4, M3 at 3 and 6, M5 at 8 and 9; 2 and 7 are plain.
SYN: Log = ["M0", "M1", None, "M3", "M1", "M0", "M3", None, "M5", "M5"]


def read(log: Log, up_to: int, max_tracked: int = 500) -> Intervals:
    """What is known once a consumer has read all offsets before ``up_to``."""
    intervals = Intervals()
    for offset, message in enumerate(log[:up_to]):
        if message is None:
            continue
        offsets = [at for at, other in enumerate(log) if other == message]
        if offset == offsets[-1]:
            intervals.complete(TOPIC, 0, message.encode(), offsets[0], offset, max_tracked)
        else:
            intervals.see_slice(TOPIC, 0, message.encode(), offset, max_tracked)
    intervals.see(TOPIC, 0, 0, up_to)
    return intervals


def safe(intervals: Intervals, committed: int, gap: int = 1000) -> int:
    return intervals.safe_offset(TOPIC, 0, committed, gap)


@dataclass
class Consumer:
    """li's rule by replay: a consumer that begins at an offset assembles what lies after it, and nothing else."""

    log: Log

    def ends_from(self, start: int) -> set[int]:
        """The offsets of messages that it delivers."""
        ends = {message: at for at, message in enumerate(self.log) if message is not None}
        return {
            at
            for at in range(start, len(self.log))
            if (message := self.log[at]) is None or (ends[message] == at and self.log.index(message) >= start)
        }


@given(logs, st.data())
def test_a_consumer_that_begins_at_the_safe_offset_gets_all_that_ends_after_the_commit(
    log: Log, data: st.DataObject
) -> None:
    committed = data.draw(st.integers(0, len(log)))
    seen = data.draw(st.integers(committed, len(log)))
    got = safe(read(log, seen), committed)
    consumer = Consumer(log)
    wanted = {at for at in consumer.ends_from(0) if at >= committed}
    assert wanted <= consumer.ends_from(got)
    later = [start for start in range(got + 1, committed + 1) if wanted <= consumer.ends_from(start)]
    if seen == len(log):
        assert later == []  # it is the last one from which that holds


@pytest.mark.parametrize(
    ("committed", "want"), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 3), (7, 7), (8, 8), (9, 8), (10, 10)]
)
def test_safe_offsets_of_the_log_syn_are_those_of_li(committed: int, want: int) -> None:
    assert safe(read(SYN, len(SYN)), committed) == want
    assert safe(read(SYN, committed), committed) == want  # and the same when nothing after it has been read


def test_what_is_open_after_some_records_is_known_for_all_of_them_at_once() -> None:
    intervals = read(SYN, len(SYN))
    for first in range(10):
        for last in range(first, 10):
            later = [safe(intervals, offset + 1) <= offset for offset in range(first, last + 1)]
            assert intervals.is_open(TOPIC, 0, first, last) == any(later)


def test_safe_offsets_of_a_mixed_log_are_those_of_li() -> None:
    """li's 17: M0 at 0, M1 at 1 and 5, M2 at 2, M3 at 3 and 4. li has none for 1 and 3, where nothing is delivered."""
    log: Log = [None, "M1", None, "M3", "M3", "M1"]
    got = {offset: safe(read(log, offset + 1), offset + 1) for offset in range(6)}
    assert got == {0: 1, 2: 1, 4: 1, 5: 6} | {1: 1, 3: 1}


def test_a_message_that_is_forgotten_has_no_safe_offset() -> None:
    """li's 18: a tracker of 4; offset 7 has 6, and what was at 2 is forgotten."""
    log: Log = ["a", None, "a", "b", "b", "c", "d", "c", "d"]
    intervals = read(log, len(log), max_tracked=3)
    assert [safe(intervals, committed) for committed in (1, 4, 8)] == [1, 3, 6]


def test_without_large_messages_the_safe_offset_is_the_committed_one() -> None:
    assert [safe(Intervals(), committed) for committed in (0, 1, 2)] == [0, 1, 2]


def test_an_incomplete_message_expires_by_the_gap_of_offsets() -> None:
    intervals = Intervals()
    intervals.see_slice(TOPIC, 0, b"m", 2)
    intervals.see(TOPIC, 0, 0, 30)
    assert safe(intervals, 23, gap=20) == 2  # the last record that was read is at 22
    assert safe(intervals, 24, gap=20) == 24


def test_a_slice_of_a_message_that_is_complete_changes_nothing() -> None:
    intervals = read(["m", None, "m"], 3)
    intervals.see_slice(TOPIC, 0, b"m", 0)  # read again
    intervals.see_slice(TOPIC, 0, b"m", 7)  # left by another attempt
    assert [safe(intervals, committed) for committed in (1, 2, 3, 8)] == [0, 0, 3, 8]
    intervals = read([None, "m", "m"], 3)
    intervals.see_slice(TOPIC, 0, b"m", 0)  # left by an attempt before, and read later
    assert [safe(intervals, committed) for committed in (1, 2, 3)] == [1, 1, 3]


def test_a_message_that_begins_before_what_was_read_first_has_its_real_start_once_it_is_complete() -> None:
    intervals = Intervals()
    intervals.see_slice(TOPIC, 0, b"m", 5)
    intervals.see_slice(TOPIC, 0, b"m", 3)
    intervals.see_slice(TOPIC, 0, b"m", 6)
    intervals.see(TOPIC, 0, 3, 8)
    assert safe(intervals, 8) == 3
    intervals.complete(TOPIC, 0, b"m", 1, 8)
    assert [safe(intervals, committed) for committed in (2, 8, 9)] == [1, 1, 9]


def test_partitions_and_topics_are_independent() -> None:
    intervals = Intervals()
    intervals.see_slice(TOPIC, 0, b"m", 1)
    for topic, partition in ((TOPIC, 0), (TOPIC, 1), (OTHER, 0)):
        intervals.see(topic, partition, 0, 5)
    assert intervals.safe_offset(TOPIC, 1, 5) == 5
    assert intervals.safe_offset(OTHER, 0, 5) == 5
    assert intervals.safe_offset(TOPIC, 0, 5) == 1


def test_the_eldest_message_of_a_partition_is_forgotten_beyond_the_limit() -> None:
    intervals = read(SYN, len(SYN), max_tracked=2)
    assert len(intervals) == 2
    assert [safe(intervals, committed) for committed in (4, 6, 9)] == [0, 6, 8]  # M3 is forgotten, M0 was read again


def test_the_partition_that_was_read_longest_ago_is_forgotten_beyond_the_overall_limit() -> None:
    intervals = Intervals(max_overall=3)
    for partition in range(3):
        intervals.see_slice(TOPIC, partition, b"m", 0)
        intervals.see(TOPIC, partition, 0, 5)
    intervals.see_slice(TOPIC, 0, b"n", 1)
    assert len(intervals) == 3
    assert [intervals.safe_offset(TOPIC, partition, 5) for partition in range(3)] == [0, 5, 0]


def test_an_incomplete_message_does_not_count_where_what_completes_it_may_have_been_read_elsewhere() -> None:
    """Or a group that has read everything through two sidecars would seem to lag for ever."""
    intervals = Intervals()
    intervals.see_slice(TOPIC, 0, b"m", 0)
    intervals.see(TOPIC, 0, 0, 5)
    assert safe(intervals, 5) == 0
    intervals.see(TOPIC, 0, 9, 20)  # the offsets between are those of another process
    assert [safe(intervals, committed) for committed in (3, 5, 6, 15, 20)] == [0, 0, 6, 15, 20]
    intervals.see(TOPIC, 0, 5, 9)
    assert [safe(intervals, committed) for committed in (6, 20)] == [0, 0]


def test_a_message_that_is_complete_counts_whatever_was_seen_around_it() -> None:
    intervals = Intervals()
    intervals.complete(TOPIC, 0, b"m", 3, 9)
    assert [safe(intervals, committed) for committed in (3, 4, 9, 10)] == [3, 3, 3, 10]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_incomplete_message_to_which_nothing_is_added_is_abandoned_after_five_minutes() -> None:
    clock = Clock()
    intervals = Intervals(clock=clock)
    intervals.see(TOPIC, 0, 0, 100)
    for offset in (3, 4):
        intervals.see_slice(TOPIC, 0, b"m", offset)
        clock.now += 299
        assert safe(intervals, 10) == 3
    intervals.see_slice(TOPIC, 0, b"m", 3)  # read again
    clock.now += 2
    assert safe(intervals, 10) == 10
    assert intervals.deletable(TOPIC, 0, 10) == 3  # what completes it may come after


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=7), st.integers(0, 30), st.integers(0, 30))
def test_what_was_not_seen_is_found(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    intervals = Intervals()
    seen: set[int] = set()
    for first, until in ranges:
        intervals.see(TOPIC, 0, first, until)
        seen.update(range(first, until))
    assert intervals.first_unseen(TOPIC, 0, start, end) == min({*range(start, end)} - seen, default=None)


def test_of_many_ranges_those_are_kept_that_have_grown_last() -> None:
    intervals = Intervals()
    for start in range(0, 100, 10):
        intervals.see(TOPIC, 0, start, start + 5)
    assert intervals.first_unseen(TOPIC, 0, 10, 15) == 10
    assert intervals.first_unseen(TOPIC, 0, 20, 25) is None


@given(logs, st.data())
def test_what_is_deleted_is_needed_by_no_message_that_ends_at_the_offset_or_later(
    log: Log, data: st.DataObject
) -> None:
    deleted = data.draw(st.integers(0, len(log)))
    seen = data.draw(st.integers(deleted, len(log)))
    tracked = data.draw(st.integers(1, 6))
    until = read(log, seen, tracked).deletable(TOPIC, 0, deleted)
    starts = [log.index(one) for one in {*log[:deleted]} & {*log[deleted:]} if one is not None]
    assert until <= min(starts, default=deleted)
    if tracked == 6 and seen == len(log):
        assert until == min(starts, default=deleted)


def test_what_reaches_over_an_offset_stays_however_far_before_it_begins() -> None:
    intervals = Intervals()
    intervals.complete(TOPIC, 0, b"m", 3, 5000)
    assert intervals.deletable(TOPIC, 0, 4000) == 3
    assert intervals.deletable(TOPIC, 0, 5001) == 5001


def test_where_messages_are_forgotten_the_whole_gap_stays() -> None:
    intervals = Intervals()
    for number in range(5):
        intervals.complete(TOPIC, 0, b"%d" % number, 10 * number, 10 * number + 5, max_tracked=2)
    assert intervals.deletable(TOPIC, 0, 24, max_gap=3) == 20
    assert intervals.deletable(TOPIC, 0, 25, max_gap=30) == 0
    assert intervals.deletable(TOPIC, 0, 26, max_gap=30) == 26
    for number in range(3):
        intervals.see_slice(OTHER, 0, b"%d" % number, 10 * number, max_tracked=2)
    assert intervals.deletable(OTHER, 0, 28, max_gap=50) == 0
    assert intervals.deletable(OTHER, 0, 2000, max_gap=5) == 2000


def test_where_a_message_begins_is_known() -> None:
    intervals = read(SYN, len(SYN))
    assert [offset for offset in range(12) if intervals.begins(TOPIC, 0, offset)] == [0, 1, 3, 8]


def test_partitions_beyond_the_limit_are_forgotten() -> None:
    intervals = Intervals()
    for partition in range(10_001):
        intervals.see(TOPIC, partition, 0, 5)
    assert [intervals.first_unseen(TOPIC, partition, 0, 5) for partition in (0, 1, 10_000)] == [0, None, None]


def test_a_message_that_is_given_up_holds_no_commit_and_its_slices_are_not_deleted() -> None:
    """Another client may have written the record that was to complete it."""
    intervals = Intervals()
    for offset in (1, 2):
        intervals.see_slice("orders", 0, b"one", offset)
    intervals.see("orders", 0, 0, 5)
    assert intervals.safe_offset("orders", 0, 5) == 1
    intervals.give_up("orders", 0, b"one")
    intervals.give_up("orders", 0, b"unknown")
    assert (intervals.safe_offset("orders", 0, 5), intervals.deletable("orders", 0, 5)) == (5, 1)
    intervals.complete("orders", 0, b"one", 1, 7)
    intervals.give_up("orders", 0, b"one")  # a record after it changes nothing
    assert (intervals.safe_offset("orders", 0, 5), intervals.deletable("orders", 0, 5)) == (1, 1)
    assert intervals.deletable("orders", 0, 8) == 8


@pytest.mark.parametrize("before", [0, 1])
def test_a_message_that_is_given_up_stays_so_for_slower_readers(before: int) -> None:
    """A reader of committed records has seen all of an aborted message; one of all records is in the middle of it."""
    intervals = Intervals()
    for offset in range(1, 1 + before):
        intervals.see_slice("orders", 0, b"one", offset)
    intervals.see("orders", 0, 0, 5)
    intervals.give_up("orders", 0, b"one")
    assert intervals.safe_offset("orders", 0, 5) == 5
    for offset in (1, 2, 3):
        intervals.see_slice("orders", 0, b"one", offset)
    assert (intervals.safe_offset("orders", 0, 5), intervals.deletable("orders", 0, 5)) == (5, 1)
    intervals.complete("orders", 0, b"one", 1, 4)
    assert (intervals.safe_offset("orders", 0, 4), intervals.safe_offset("orders", 0, 5)) == (1, 5)


def test_a_message_that_is_given_up_unseen_lets_records_be_deleted() -> None:
    intervals = Intervals()
    intervals.see("orders", 0, 0, 5)
    intervals.give_up("orders", 0, b"one")
    assert [intervals.deletable("orders", 0, offset) for offset in range(6)] == [*range(6)]
    assert not any(intervals.begins("orders", 0, offset) for offset in range(6))
