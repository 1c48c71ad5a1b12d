"""What is looked back to with `offsets: strict-li`."""

from __future__ import annotations

from functools import partial

from support.large_logs import Log, Process, consume, lm, message_id

from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.large_messages.cache import MAX_PARTITIONS, MAX_POINTS, ResumePoints

FIRST, SECOND = (b"ab", b"cd"), (b"ef", b"gh")


def interleaved() -> Log:
    """0 first, 1 second, 2 a small one, 3 second is whole, 4 first is whole, 5 another small one."""
    log = Log()
    for number, at, parts in ((1, 0, FIRST), (2, 0, SECOND)):
        log.append(build_batch([NewRecord(parts[at], b"key", (lm(message_id(number), at, 2, 4),))]))
    log.add(b"small")
    for number, at, parts in ((2, 1, SECOND), (1, 1, FIRST)):
        log.append(build_batch([NewRecord(parts[at], b"key", (lm(message_id(number), at, 2, 4),))]))
    log.add(b"last")
    return log


SMALL, WHOLE = [(2, b"small"), (5, b"last")], [(2, b"small"), (3, b"efgh"), (4, b"abcd"), (5, b"last")]


def strict(points: ResumePoints) -> Process:
    return Process(interleaved(), resumed=partial(points.before, "orders", 0))


def test_a_consumer_that_begins_anywhere_gets_what_begins_there_or_later() -> None:
    process = strict(ResumePoints())
    assert consume(process, 2, 1) == SMALL
    assert process.log.counts["looked_back"] == 0


def test_one_that_goes_on_at_a_committed_offset_gets_what_was_not_whole_there() -> None:
    points = ResumePoints()
    points.note("orders", 0, 0, 2)
    process = strict(points)
    assert consume(process, 2, 1) == WHOLE
    assert process.log.counts["looked_back"] == 1


def test_it_is_looked_back_to_the_safe_offset_and_not_further() -> None:
    points = ResumePoints()
    points.note("orders", 0, 1, 2)
    assert consume(strict(points), 2, 1) == [(2, b"small"), (3, b"efgh"), (5, b"last")]


def test_what_other_partitions_and_later_offsets_have_does_not_count() -> None:
    points = ResumePoints()
    points.note("orders", 1, 0, 2)
    points.note("others", 0, 0, 2)
    points.note("orders", 0, 0, 6)
    assert consume(strict(points), 2, 1) == SMALL


def test_two_groups_at_one_offset_have_the_smaller_safe_offset() -> None:
    points = ResumePoints()
    for safe in (3, 1, 2):
        points.note("orders", 0, safe, 9)
    assert points.before("orders", 0, 9) == [(1, 9)]
    assert points.before("orders", 0, 8) == []


def test_the_oldest_points_and_partitions_are_forgotten() -> None:
    points = ResumePoints()
    for offset in range(MAX_POINTS + 1):
        points.note("orders", 0, offset, offset + 1)
    assert points.before("orders", 0, 100) == [(offset, offset + 1) for offset in range(1, MAX_POINTS + 1)]
    for partition in range(1, MAX_PARTITIONS + 1):
        points.note("orders", partition, 0, 1)
    assert points.before("orders", 0, 100) == []
    assert points.before("orders", 1, 100) == [(0, 1)]
