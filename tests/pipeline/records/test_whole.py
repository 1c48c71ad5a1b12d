"""Large messages in batches of a log: segments hidden, values whole, wherever the segments are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.large_logs import Log, carrier_record, message_id, sliced

from kafka_sidecar.codec.records import Batch, Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.pipeline.records.whole import MissingError, WholeMessages

VALUE = b'{"items": [' + b"1234567, " * 2000 + b"1]}"


def log_of_both_formats() -> Log:
    """Offsets: 0 a record, 1 to 5 VALUE, 6 to 8 li's segments of VALUE, 9 and 10 slices of VALUE, 11 to 13 the client's
    batch with VALUE between two other records."""
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 5, 1)
    log.add_segments(VALUE, 3, 2, (0, 2, 1))
    slices = [log.append(one) for one in sliced(VALUE, 3, message_id(3))]
    carrier = carrier_record(VALUE, 3, message_id(3), slices, headers=[Header("h", b"1")])
    log.append(build_batch([NewRecord(b"a", b"key"), carrier, NewRecord(b"b", b"key")], base_timestamp=1000))
    return log


SHOWN = [(0, b"first"), (5, VALUE), (8, VALUE), (11, b"a"), (12, VALUE), (13, b"b")]


def whole(log: Log, found: Sequence[Batch], cache_bytes: int = 1 << 20, **settings: Any) -> WholeMessages:
    return WholeMessages("orders", 0, TopicSettings(**settings), log.respond, cache_bytes, 1 << 20, 1000)


def stored(log: Log) -> list[Batch]:
    return [batch for data in log.batches for batch in batches(data)]


def shown(found: Iterator[Batch]) -> list[tuple[int, bytes | None]]:
    return [
        (batch.header.base_offset + record.offset_delta, record.value) for batch in found for record in batch.records()
    ]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_messages_are_whole_and_their_segments_are_hidden(cache_bytes: int) -> None:
    log = log_of_both_formats()
    messages = whole(log, stored(log), cache_bytes)
    assert shown(messages.batches(stored(log))) == SHOWN
    assert (messages.counts.assembled_messages, messages.counts.dropped_messages) == (3, 0)
    assert bool(log.reads) == (cache_bytes == 0)  # what is not kept is read again


@pytest.mark.parametrize("first", range(14))
def test_segments_before_the_slice_are_read_for_the_messages_in_it(first: int) -> None:
    log = log_of_both_formats()
    later = [batch for batch in stored(log) if batch.header.base_offset + batch.header.last_offset_delta >= first]
    found = shown(whole(log, later).batches(later))
    assert [one for one in found if one[0] >= first] == [one for one in SHOWN if one[0] >= first]


def test_the_records_of_a_clients_batch_are_in_one_batch_again() -> None:
    log = log_of_both_formats()
    *_, last = whole(log, stored(log)).batches(stored(log))
    assert (last.header.base_offset, last.header.count, last.crc_is_right()) == (11, 3, True)
    records = list(last.records())
    assert [(one.key, one.timestamp) for one in records] == [(b"key", 1000)] * 3
    assert [[header.key for header in one.headers] for one in records] == [[], ["h"], []]


def test_a_message_without_all_segments_is_dropped_or_fails() -> None:
    log = Log()
    log.append(build_batch([carrier_record(VALUE, 3, message_id(1), [0, 1])]))
    log.add(b"last")
    dropping = whole(log, stored(log))
    assert shown(dropping.batches(stored(log))) == [(1, b"last")]
    assert dropping.counts.dropped_messages == 1
    failing = whole(log, stored(log), on_missing="fail")
    with pytest.raises(MissingError, match="orders, partition 0, offset 0: a large message is missing"):
        list(failing.batches(stored(log)))
