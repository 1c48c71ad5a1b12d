"""Walks along a partition: copies of messages are recognised, and many segments cost a bounded time."""

from __future__ import annotations

import os

import pytest
from support.examples import TAKES_FEW
from support.large_logs import (
    FIVE,
    SHOWN,
    VALUE,
    Log,
    Process,
    carrier_record,
    consume,
    large_log,
    lm,
    message_id,
    shown,
    sliced,
)

from kafka_sidecar.codec.records import Codec, NewRecord, build_batch

# Copies


def test_a_message_is_delivered_at_its_first_carrier_alone() -> None:
    log, id_ = Log(), message_id(1)
    offsets = [log.append(one) for one in sliced(VALUE, 5, id_)]
    carriers = [carrier_record(VALUE, 5, id_, offsets, key=b"%d" % number) for number in range(3)]
    at = log.append(build_batch(carriers))
    log.append(build_batch([carriers[0]]))
    process = Process(log)
    assert consume(process, 0) == [(at, VALUE)]
    assert consume(process, 0, max_bytes=1) == [(at, VALUE)]  # who seeks back gets it again
    assert log.reports.count(("dropped", at + 1, "copy")) == 2


def test_a_copy_in_the_same_batch_is_one_also_for_the_request_that_goes_on_there() -> None:
    log = Log()
    offsets = [[log.append(one) for one in sliced(VALUE, 5, message_id(number))] for number in (1, 2)]
    one, other = [carrier_record(VALUE, 5, message_id(1 + at), offsets[at]) for at in range(2)]
    at = log.append(build_batch([one, other, one, other]))
    for start in (0, at):
        log.reports.clear()
        assert consume(Process(log), start, max_bytes=1) == [(at, VALUE), (at + 1, VALUE)]
        assert [report for report in log.reports if report[0] == "dropped"] == [
            ("dropped", at + 2, "copy"), ("dropped", at + 3, "copy"),
        ]  # fmt: skip


def test_a_copy_is_one_for_a_consumer_that_comes_to_it_later() -> None:
    log, id_ = Log(), message_id(1)
    offsets = [log.append(one) for one in sliced(VALUE, 5, id_)]
    at, copy, _ = (log.append(build_batch([carrier_record(VALUE, 5, id_, offsets)])) for _ in range(3))
    process = Process(log)
    assert consume(process) == [(at, VALUE)]
    assert [consume(process, offset) for offset in (copy, copy + 1)] == [[], []]


def test_a_carrier_whose_message_was_not_delivered_makes_no_other_a_copy() -> None:
    """Whoever forges a carrier for the slices of others must not keep their message from anyone."""
    log, id_ = Log(), message_id(1)
    offsets = [log.append(one) for one in sliced(VALUE, 5, id_)]
    log.append(build_batch([carrier_record(VALUE, 5, id_, offsets, crc=1)]))
    at = log.append(build_batch([carrier_record(VALUE, 5, id_, offsets)]))
    process = Process(log)
    for offset in range(at + 1):
        assert consume(process, offset)[-1] == (at, VALUE)
        assert consume(Process(log), offset)[-1] == (at, VALUE)


def test_a_carrier_that_has_no_room_in_a_response_is_delivered_in_the_next_one() -> None:
    log, process = large_log(), Process(large_log())
    process = Process(log)
    assert consume(process, 0, max_bytes=11_000) == SHOWN
    assert not [one for one in log.reports if one[0] == "dropped"]


def test_a_log_that_was_truncated_and_is_read_again_delivers_its_messages() -> None:
    log = large_log()
    process = Process(log)
    assert consume(process) == SHOWN
    log.batches[6:], log.end = [], 6
    at = log.add_large(FIVE, 4, 2)
    assert consume(process, 6) == [(at, FIVE)]


# Bounds

SEGMENTS = 2000 if TAKES_FEW else 5000  # more than what is looked back to


@pytest.mark.bulk
@pytest.mark.parametrize("count", [2, 300], ids=["messages of two", "one message"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("batch", [1, 50, 5000])
def test_many_segments_are_walked_over_without_reading_anything_again(batch: int, codec: int, count: int) -> None:
    log = Log()
    log.add(*[b"before"] * 1500)
    records = []
    for number in range(SEGMENTS):
        id_ = message_id(number + 1 if count == 2 else 1)
        records.append(NewRecord(b"x", b"k", (lm(id_, number % (count - 1), count, 1000),)))
    for at in range(0, len(records), batch):
        log.append(build_batch(records[at : at + batch], codec=codec))
    honest = log.add(b"honest")
    process = Process(log)
    assert consume(process, 1500, 100_000) == [(honest, b"honest")]
    assert log.counts["looked_back"] <= 1
    assert len(log.reads) <= 1


def test_a_batch_of_segments_leaves_turns_to_others() -> None:
    log = Log()
    log.append(build_batch([
        NewRecord(b"x", b"k", (lm(message_id(number), 0, 2, 1000),)) for number in range(3000)
    ]))  # fmt: skip
    delivery = Process(log).delivery()
    log.run(delivery.feed(log.fetch(0, 1 << 20), ()))
    assert log.turns >= 3000 // 200
    assert log.works == 1  # they are not classified in the event loop


def test_records_beside_one_segment_are_not_copied_in_the_event_loop() -> None:
    log = Log()
    small = [NewRecord(b"x") for _ in range(3000)]
    log.append(build_batch([*small, NewRecord(b"x", b"k", (lm(message_id(1), 0, 2, 1000),))]))
    delivery = Process(log).delivery()
    log.run(delivery.feed(log.fetch(0, 1 << 20), ()))
    assert len(shown(delivery.records(with_marker=True))) == 3000
    assert log.works == 2  # they are classified, and copied


def test_looking_back_ends_with_a_bounded_cost_and_sees_what_is_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 4_000_000
    monkeypatch.setattr("kafka_sidecar.large_messages.segment_index.MAX_LOOK_BACK_BYTES", room)
    monkeypatch.setattr("kafka_sidecar.large_messages.partition_log.MAX_LOOK_BACK_BYTES", room)
    monkeypatch.setattr("kafka_sidecar.large_messages.partition_log.MAX_PIECE_BYTES", 200_000)
    log = Log()
    for _ in range(900):
        log.append(build_batch([NewRecord(bytes(100_000))], codec=Codec.ZSTD))
    *_, last = log.add_segments(VALUE, 5, 1, range(5))
    lost = log.add_segments(VALUE, 5, 2, [0])[0]
    honest = log.add(b"honest")
    process = Process(log)
    assert consume(process, last) == [(last, VALUE), (honest, b"honest")]
    assert ("dropped", lost, "missing") not in log.reports
    assert log.works < 1.5 * room / 200_000
    assert log.counts["looked_back"] == 1


@pytest.mark.parametrize("ranges", [None, [(0, 850), (904, 905)]], ids=["the gap", "where consumers go on"])
def test_a_message_of_which_not_all_could_be_searched_is_reported(
    ranges: list[tuple[int, int]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("segment_index", "partition_log"):
        monkeypatch.setattr(f"kafka_sidecar.large_messages.{module}.MAX_LOOK_BACK_BYTES", 4_000_000)
    monkeypatch.setattr("kafka_sidecar.large_messages.partition_log.MAX_PIECE_BYTES", 200_000)
    log, heavy = Log(), build_batch([NewRecord(bytes(100_000))], codec=Codec.ZSTD)
    for part in (range(0), range(4), range(0)):
        log.add_segments(VALUE, 5, 1, part)
        for _ in range(300):
            log.append(heavy)
    log.add(b"between")
    (last,) = log.add_segments(VALUE, 5, 1, [4])
    process = Process(log, resumed=(lambda offset: ranges) if ranges is not None else None)
    assert consume(process, last) == []
    assert ("dropped", last, "missing") in log.reports


def test_what_was_seen_by_looking_back_is_not_read_again_where_a_client_could_not_wait() -> None:
    log = Log()
    for _ in range(100):
        log.append(build_batch([NewRecord(os.urandom(50_000))]))
    *_, last = log.add_segments(VALUE, 5, 1, range(5))
    process, started = Process(log), list[int]()
    log.max_read = 100_000
    for _ in range(100):
        log.late_after = len(log.reads) + 3
        delivery = process.delivery(last)
        log.run(delivery.feed(log.fetch(last, 1), ()))
        started = [read.offset for read in log.reads]
        if delivery.cut_at is None:
            break
    assert shown(delivery.records(with_marker=True)) == [(last, VALUE)]
    assert len(started) == len({*started})


@pytest.mark.bulk
@pytest.mark.parametrize("late", [1, 2, 3, 4])
def test_where_threads_have_no_time_a_client_gets_what_is_before_and_asks_again(late: int) -> None:
    """To be classified, copied, copied and sealed."""
    log = Log()
    offsets = [log.append(one) for one in sliced(VALUE, 3, message_id(1))]
    carrier = carrier_record(VALUE, 3, message_id(1), offsets)
    at = log.append(build_batch([*[NewRecord(bytes(100))] * 2000, carrier, *[NewRecord(b"x")] * 2000]))
    expected = consume(Process(log))
    log.works, log.late_work = 0, late
    found = consume_again(Process(log))
    assert found == expected
    assert (at + 2000, VALUE) in found


def consume_again(process: Process) -> list[tuple[int, bytes | None]]:
    """As `consume`, by a client that asks again for what it did not get."""
    found, offset = list[tuple[int, bytes | None]](), 0
    for _ in range(10):
        delivery = process.fetch(offset)
        found += shown(delivery.records(with_marker=True), offset)
        offset = delivery.next_offset if delivery.cut_at is None else delivery.cut_at
        if offset == process.log.end:
            return found
    raise AssertionError("no progress")
