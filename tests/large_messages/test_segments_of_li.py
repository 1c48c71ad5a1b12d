"""Segments without pointers, as li-apache-kafka-clients writes them: delivered where the last of them is."""

from __future__ import annotations

import pytest
from support.large_logs import Log, Process, consume, lm, message_id, shown

from kafka_sidecar.codec.records import NewRecord, build_batch

VALUE = bytes(range(256)) * 40
FIVE = VALUE[:5000]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_segments_are_delivered_where_the_last_of_them_is(order: tuple[int, ...], max_bytes: int) -> None:
    for start in range(7):
        log = Log()
        log.add(b"first")
        *_, at = log.add_segments(VALUE, 4, 1, order)
        log.add_segments(VALUE, 4, 1, order[:2])  # copies that come later
        expected = [one for one in [(0, b"first"), (at, VALUE)] if one[0] >= start]
        assert consume(Process(log), start, max_bytes) == expected


def test_the_log_before_the_first_segment_is_read_once() -> None:
    log = Log()
    log.add(*[b"x"] * 20)
    log.add_segments(VALUE, 5, 1, range(5))
    log.add_segments(FIVE, 5, 2, range(5))
    assert consume(Process(log), 22, 1) == [(24, VALUE), (29, FIVE)]
    assert log.counts["looked_back"] == 1


def test_interleaved_segments_are_delivered_in_the_order_in_which_they_are_complete() -> None:
    log, parts = Log(), {1: (b"ab", b"cd"), 2: (b"ef", b"gh")}
    for message, number in ((1, 0), (2, 0), (2, 1), (1, 1)):
        record = NewRecord(parts[message][number], b"key", (lm(message_id(message), number, 2, 4),))
        log.append(build_batch([record]))
    assert consume(Process(log)) == [(2, b"efgh"), (3, b"abcd")]


def test_a_segment_of_one_is_delivered_at_once() -> None:
    log = Log()
    log.append(build_batch([NewRecord(b"whole", None, (lm(message_id(1), 0, 1, 5),))]))
    assert shown(Process(log).fetch().records(with_marker=True)) == [(0, b"whole")]
    assert log.reports == [("assembled", 0, 0, 5)]


def test_segments_of_one_id_that_differ_are_not_put_together() -> None:
    log, id_ = Log(), message_id(1)
    for number, size in ((0, 10), (1, 11), (1, 10)):
        log.append(build_batch([NewRecord(b"01234", b"key", (lm(id_, number, 2, size),))]))
    assert consume(Process(log)) == [(2, b"0123401234")]
