"""Where the slices of a message are looked for, and what is taken for one of them."""

from __future__ import annotations

import pytest
from support.large_logs import Log, Process, carrier_record, consume, cut, lm, message_id, shown, sliced

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import Codec, NewRecord, build_batch
from kafka_sidecar.large_messages.reading import Fetched
from kafka_sidecar.large_messages.settings import TopicSettings

VALUE = bytes(range(256)) * 40  # 10 KB
FIVE = VALUE[:5000]
SHOWN = [(0, b"first"), (5, VALUE), (9, FIVE), (10, b"last")]


def large_log() -> Log:
    """first, 1 to 5: VALUE, 6 to 9: FIVE, last."""
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 5, 1)
    log.add_large(FIVE, 4, 2)
    log.add(b"last")
    return log


def test_slices_that_a_read_says_are_before_the_start_of_the_log_are_missing() -> None:
    log = large_log()
    log.delete_before(3)
    log.failures = {0: Fetched(0, b"", log.end, log.end, log.start)}
    assert shown(Process(log).fetch(3).records(with_marker=True)) == SHOWN[2:]
    assert ("dropped", 5, "missing") in log.reports


def test_slices_without_keys_are_no_message_without_a_carrier() -> None:
    log = Log()
    for number, part in enumerate(cut(FIVE, 3)):
        log.append(build_batch([NewRecord(part, None, (lm(message_id(1), number, 3, len(FIVE)),))]))
    assert consume(Process(log)) == []
    assert log.reports == [("hidden", 0), ("hidden", 1), ("hidden", 2)]


def test_slices_after_their_carrier_are_none() -> None:
    log, id_ = Log(), message_id(1)
    log.append(build_batch([carrier_record(FIVE, 3, id_, [1, 2])]))
    for data in sliced(FIVE, 3, id_):
        log.append(data)
    assert consume(Process(log)) == []
    assert ("dropped", 0, "missing") in log.reports


def test_pointers_to_what_is_not_the_value_do_not_matter_if_the_slices_are_near() -> None:
    log, id_ = Log(), message_id(1)
    others = [log.append(data) for data in sliced(FIVE[::-1], 3, id_)]
    for data in sliced(FIVE, 3, id_):
        log.append(data)
    at = log.append(build_batch([carrier_record(FIVE, 3, id_, others)]))
    assert consume(Process(log)) == [(at, FIVE)]


def test_an_empty_read_drops_nothing_where_the_slices_are_too_far_away_to_be_searched() -> None:
    log = large_log()
    log.failures = {0: Fetched(0, b"", log.end, log.end, 0)}
    process = Process(log, TopicSettings(look_back=1))
    delivery = process.fetch(5)
    assert (delivery.cut_at, delivery.error_code, log.reports) == (5, ErrorCode.UNKNOWN_SERVER_ERROR, [])
    assert shown(process.fetch(5).records(with_marker=True)) == SHOWN[1:]


def test_one_read_inflates_no_more_than_its_limit_and_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_sidecar.large_messages.assemble.READ_BYTES", 4000)
    log = Log()
    at = log.add_large(bytes(10_001), 5, 1, codec=Codec.ZSTD)
    assert shown(Process(log).fetch(at).records(with_marker=True)) == [(at, bytes(10_001))]
    assert [read.offset for read in log.reads] == [0, 2]


def test_slices_of_before_that_are_kept_are_not_those_of_another_message_at_their_offsets() -> None:
    log = large_log()
    process = Process(log)
    assert consume(process) == SHOWN
    log.batches, log.end = log.batches[:1], 1
    at = log.add_large(VALUE[::-1], 5, 3)
    assert shown(process.fetch(at).records(with_marker=True)) == [(at, VALUE[::-1])]
