"""What a consumer gets of a partition with large messages."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from support.large_logs import (
    FIVE,
    SHOWN,
    TOPIC_ID,
    VALUE,
    Log,
    Process,
    carrier_record,
    consume,
    cut,
    large_log,
    lm,
    message_id,
    room,
    shown,
    sliced,
)

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Codec, Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.cache import SegmentCache
from kafka_sidecar.large_messages.delivery import ResponseRoom
from kafka_sidecar.large_messages.partition_log import SLICE_OVERHEAD_BYTES
from kafka_sidecar.large_messages.settings import TopicSettings

TRANSACTIONAL, PID = 0x10, 7
NOT_LEADER, CORRUPT_MESSAGE = 6, 2
OTHER_TOPIC = bytes(16 * [9])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_message_comes_out_whole_and_its_slices_are_hidden(codec: int) -> None:
    log = Log()
    log.add(b"first")
    at = log.add_large(VALUE, 5, 1, codec)
    log.add(b"last")
    delivery = Process(log).fetch()
    data = delivery.records(with_marker=True)
    assert shown(data) == [(0, b"first"), (at, VALUE), (6, b"last")]
    assert [one.header.codec for one in batches(data or b"")] == [0, codec, 0]
    assert all(one.crc_is_right() for one in batches(data or b""))
    assert not log.reads  # the slices were in the same response


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_not_read_again_has_the_right_checksums(codec: int) -> None:
    log, value = Log(), VALUE * 40
    at = log.add_large(value, 5, 1, codec)
    end = log.add_segments(value, 3, 2, (2, 0, 1))[-1]  # of li: nothing says what the whole is
    delivery = Process(log).fetch()
    data = delivery.records(with_marker=True)
    assert shown(data) == [(at, value), (end, value)]
    assert all(one.crc_is_right() for one in batches(data or b""))


def test_a_large_value_that_is_not_the_one_that_was_sent_is_not_delivered() -> None:
    log, value = Log(), VALUE * 40
    log.add_large(value, 5, 1, crc=crc32c(value) ^ 1)
    log.add(b"last")
    assert shown(Process(log).fetch().records(with_marker=True)) == [(5, b"last")]
    assert log.reports


@pytest.mark.parametrize("at", [BATCH_HEADER_SIZE, 200, 100_000, -1])
def test_consumers_get_neither_a_damaged_slice_nor_what_follows_it(at: int) -> None:
    """Many clients do not compare checksums: they would take it for a record."""
    log, value = Log(), VALUE * 40
    log.add(b"first")
    log.add_large(value, 5, 1)
    damaged = bytearray(log.batches[3])
    damaged[at] ^= 1
    log.batches[3] = bytes(damaged)
    log.add(b"last")
    delivery = Process(log).fetch()
    assert shown(delivery.records(with_marker=True)) == [(0, b"first")]
    assert (delivery.hidden, delivery.cut_at, delivery.error_code) == ((1, 3), 3, None)
    delivery = Process(log).fetch(3)
    assert (delivery.records(with_marker=True), delivery.error_code) == (b"", ErrorCode.CORRUPT_MESSAGE)
    assert log.reports[-1] == ("withheld", 3, "damaged")


def test_consumers_get_neither_a_slice_that_is_too_large_to_look_into_nor_what_follows_it() -> None:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE * 400, 3, 1, Codec.GZIP)  # slices of more than a megabyte
    delivery = Process(log).fetch(inflate_limit=1000)
    assert (shown(delivery.records(with_marker=True)), delivery.cut_at) == ([(0, b"first")], 1)
    delivery = Process(log).fetch(1, inflate_limit=1000)
    assert (delivery.records(with_marker=True), delivery.error_code) == (b"", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert log.reports[-1] == ("withheld", 1, "too_large")


@pytest.mark.parametrize("field", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"])
def test_consumers_get_nothing_that_follows_a_batch_whose_end_is_not_known(field: bytes) -> None:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 5, 1)
    damaged = log.batches[3][:8] + field + log.batches[3][12:]  # its length
    delivery = Process(log).delivery()
    log.run(delivery.feed(b"".join([*log.batches[:3], damaged, *log.batches[4:]]), ()))
    assert shown(delivery.records(with_marker=True)) == [(0, b"first")]
    is_long = field == b"\x7f\xff\xff\xff"  # as a last batch that the broker has cut off
    assert (delivery.cut_at, delivery.next_offset) == (None if is_long else 3, 3)


@pytest.mark.parametrize("max_bytes", [1, 3000, 6000, 1 << 20])
@pytest.mark.parametrize("offset", range(12))
def test_a_consumer_that_begins_anywhere_gets_what_follows(offset: int, max_bytes: int) -> None:
    assert consume(Process(large_log()), offset, max_bytes) == [one for one in SHOWN if one[0] >= offset]


def test_what_has_no_large_messages_stays_as_it_came() -> None:
    log = Log()
    log.add(b"first", b"second")
    log.add(None)
    assert Process(log).fetch().records(with_marker=True) is None


def test_hidden_records_at_the_end_become_one_marker_from_the_clients_offset_on() -> None:
    log = Log()
    for data in sliced(VALUE, 11, message_id(1)):
        log.append(data)
    delivery = Process(log).fetch(4)
    assert not delivery.has_shown
    assert delivery.hidden == (4, 10)
    (marker,) = batches(delivery.records(with_marker=True) or b"")
    header = marker.header
    assert (header.base_offset, header.last_offset_delta, header.is_control, header.producer_id) == (4, 5, True, -1)
    assert delivery.records(with_marker=False) == b""


def test_only_the_bytes_that_are_missing_are_read() -> None:
    log, process = large_log(), Process(large_log())
    process = Process(log)
    delivery = process.fetch(3, 6000)  # the carrier, its first two slices are before
    assert shown(delivery.records(with_marker=True)) == [(5, VALUE)]
    (read,) = log.reads
    missing = 2 * len(sliced(VALUE, 5, message_id(1))[0])
    assert read.offset == 1
    assert missing - 2 * SLICE_OVERHEAD_BYTES < read.max_bytes < missing + 2 * SLICE_OVERHEAD_BYTES
    log.reads.clear()
    assert shown(process.fetch(5, 1).records(with_marker=True)) == [(5, VALUE)]
    assert not log.reads  # all are kept


def test_without_a_cache_all_is_read_and_right() -> None:
    log = large_log()
    process = Process(log, cache=SegmentCache(0))
    assert consume(process, 0, 1) == SHOWN
    assert log.counts["read"] < 2 * (len(VALUE) + len(FIVE))


def test_one_batch_with_several_messages_becomes_a_batch_for_each() -> None:
    log, id_ = Log(), message_id(1)
    first = [log.append(one) for one in sliced(VALUE, 3, id_)]
    second = [log.append(one) for one in sliced(FIVE, 3, message_id(2))]
    records = [
        NewRecord(b"a", b"1"),
        carrier_record(VALUE, 3, id_, first, headers=[Header("h", b"1")]),
        NewRecord(b"b", None, (Header("h", None),), timestamp_delta=5),
        NewRecord(None, b"3"),
        carrier_record(FIVE, 3, message_id(2), second),
        NewRecord(b"slice", None, (lm(message_id(9), 0, 2, 10),)),
    ]
    base = log.append(
        build_batch(
            records, attributes=TRANSACTIONAL, producer_id=PID, producer_epoch=3, base_sequence=20, base_timestamp=1000
        )
    )
    data = Process(log).fetch(base).records(with_marker=True)
    assert shown(data) == [(4, b"a"), (5, VALUE), (6, b"b"), (7, None), (8, FIVE)]
    found = [one.header for one in batches(data or b"")]
    assert [(one.base_offset, one.last_offset_delta, one.base_sequence) for one in found] == [
        (4, 0, 20), (5, 0, 21), (6, 1, 22), (8, 1, 24),
    ]  # fmt: skip
    assert {(one.producer_id, one.producer_epoch, one.is_transactional, one.base_timestamp) for one in found} == {
        (PID, 3, True, 1000)
    }
    whole = [record for one in batches(data or b"") for record in one.records()]
    assert whole[1].headers == (Header("h", b"1"),)
    assert [record.timestamp for record in whole] == [1000, 1000, 1005, 1000, 1000]


def test_sequence_numbers_go_on_at_0_after_the_largest() -> None:
    log = Log()
    offsets = [log.append(one) for one in sliced(VALUE, 3, message_id(1))]
    records = [NewRecord(b"a"), NewRecord(b"b"), carrier_record(VALUE, 3, message_id(1), offsets), NewRecord(b"c")]
    base = log.append(build_batch(records, producer_id=PID, producer_epoch=3, base_sequence=2**31 - 2))
    found = batches(Process(log).fetch(base).records(with_marker=True) or b"")
    assert [one.header.base_sequence for one in found] == [2**31 - 2, 0, 1]


def test_records_before_the_clients_offset_are_not_assembled() -> None:
    log, id_ = Log(), message_id(1)
    offsets = [log.append(one) for one in sliced(VALUE, 3, id_)]
    base = log.append(build_batch([carrier_record(VALUE, 3, id_, offsets), NewRecord(b"a"), NewRecord(b"b")]))
    data = Process(log).fetch(base + 2).records(with_marker=True)
    assert shown(data) == [(base + 2, b"b")]
    assert log.counts["read"] == 0


def test_the_header_is_delivered_as_li_does_if_it_is_configured() -> None:
    log = Log()
    log.add_large(VALUE, 5, 1, headers=[Header("h", b"1")])
    data = Process(log, TopicSettings(deliver_headers=True)).fetch().records(with_marker=True)
    ((record,),) = [one.records() for one in batches(data or b"")]
    delivered = bytes.fromhex("02" + 32 * "0" + "ffffffff" + "00000005") + len(VALUE).to_bytes(4, "big")
    assert record.headers == (Header("h", b"1"), Header("_lm", delivered))


def test_the_id_that_li_has_put_in_place_of_a_null_key_is_not_delivered() -> None:
    log, id_ = Log(), message_id(1)
    for number, part in enumerate((b"01234", b"56789")):
        log.append(build_batch([NewRecord(part, id_, (lm(id_, number, 2, 10),))]))
    ((record,),) = [one.records() for one in batches(Process(log).fetch().records(with_marker=True) or b"")]
    assert (record.key, record.value) == (None, b"0123456789")


# Limits of the response (KIP-74)


def test_a_message_that_does_not_fit_ends_the_response_unless_it_is_first() -> None:
    log = large_log()
    whole = Process(log).fetch(0, 6000)
    assert shown(whole.records(with_marker=True)) == [(0, b"first")]
    assert whole.cut_at is None  # the broker's response ends before the carrier
    cut_off = Process(log).delivery(0, 6000)
    log.run(cut_off.feed(log.fetch(0, 1 << 20), ()))
    assert cut_off.cut_at == 5
    assert shown(cut_off.records(with_marker=True)) == [(0, b"first")]
    assert cut_off.hidden == (1, 5)
    first = Process(log).delivery(1, 6000)
    log.run(first.feed(log.fetch(1, 1 << 20), ()))
    assert shown(first.records(with_marker=True)) == [(5, VALUE)]
    assert first.cut_at == 9


def test_the_limit_is_that_of_all_partitions_together() -> None:
    log, response = large_log(), room(12_000)
    one = Process(log).fetch(1, 1 << 20, response)
    assert shown(one.records(with_marker=True)) == [(5, VALUE)]
    other = Process(log).fetch(1, 1 << 20, response)
    assert other.cut_at == 5
    assert shown(other.records(with_marker=True)) == []
    assert other.hidden == (1, 5)


def test_what_one_partition_has_got_is_no_room_for_another() -> None:
    log, value = Log(), bytes(100_000)
    log.add_large(value, 3, 1)
    response = room(250_000)
    one, other = (Process(log).fetch(0, 1 << 20, response) for _ in range(2))
    assert (shown(one.records(with_marker=True)), one.cut_at) == ([(2, value)], None)
    assert (shown(other.records(with_marker=True)), other.cut_at) == ([], 2)


def test_two_messages_of_one_batch_are_cut_apart_where_the_second_does_not_fit() -> None:
    log = Log()
    offsets = [[log.append(one) for one in sliced(VALUE, 3, message_id(number))] for number in (1, 2)]
    records = [carrier_record(VALUE, 3, message_id(number), offsets[number - 1]) for number in (1, 2)]
    base = log.append(build_batch([NewRecord(b"a"), *records, NewRecord(b"b")]))
    process, found = Process(log), []
    for offset, end in ((base, base), (base + 1, base + 1), (base + 2, base + 3)):
        delivery = process.fetch(offset, 5000)
        found += [shown(delivery.records(with_marker=True))]
        (*_, last) = batches(delivery.records(with_marker=True) or b"")
        assert last.header.base_offset + last.header.last_offset_delta == end
    assert found == [[(base, b"a")], [(base + 1, VALUE)], [(base + 2, VALUE), (base + 3, b"b")]]


# What is missing


def test_a_message_of_which_slices_are_gone_is_dropped() -> None:
    log = large_log()
    log.start, log.batches = 3, log.batches[3:]
    delivery = Process(log).fetch(3)
    assert shown(delivery.records(with_marker=True)) == SHOWN[2:]
    assert ("dropped", 5, "missing") in log.reports


def test_or_the_partition_stands_still_there() -> None:
    log = large_log()
    log.start, log.batches = 3, log.batches[3:]
    process = Process(log, TopicSettings(on_missing="fail"))
    before = process.fetch(3)
    assert (before.error_code, before.hidden, before.cut_at) == (None, (3, 5), 5)
    at = process.fetch(5)
    assert (at.error_code, at.records(with_marker=True)) == (CORRUPT_MESSAGE, b"")


def test_a_broker_that_does_not_respond_now_drops_nothing() -> None:
    log = large_log()
    log.error_code = NOT_LEADER
    delivery = Process(log).fetch(5)
    assert (delivery.error_code, delivery.records(with_marker=True)) == (NOT_LEADER, b"")
    assert log.reports == []
    log.error_code = 0
    assert shown(Process(log).fetch(5).records(with_marker=True)) == SHOWN[1:]


def test_a_message_as_large_as_allowed_is_delivered() -> None:
    assert consume(Process(large_log(), TopicSettings(max_message=len(VALUE)))) == SHOWN


def test_a_message_larger_than_allowed_is_dropped_before_memory_is_used() -> None:
    log, reserved = large_log(), list[int]()
    response = ResponseRoom(1 << 20, reserved.append)
    process = Process(log, TopicSettings(max_message=6000))
    assert shown(process.fetch(0, room=response).records(with_marker=True)) == [one for one in SHOWN if one[0] != 5]
    assert ("dropped", 5, "too_large") in log.reports
    assert reserved == [len(FIVE)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"offsets": [1, 2, 4, 3]},  # mixed up
        {"offsets": [0, 2, 3, 4]},  # to an ordinary record
        {"offsets": [1, 2, 3]},  # one is lacking
        {"offsets": [0, 1, 2, 3]},  # a mirrored topic
    ],
)
def test_pointers_that_lead_elsewhere_do_not_matter_if_the_slices_are_near(wrong: dict[str, Any]) -> None:
    log, id_ = Log(), message_id(1)
    log.add(b"first")
    offsets = [log.append(one) for one in sliced(VALUE, 5, id_)]
    log.append(build_batch([carrier_record(VALUE, 5, id_, **{"offsets": offsets, **wrong})]))
    assert shown(Process(log).fetch(5).records(with_marker=True)) == [(5, VALUE)]
    assert log.counts["looked_back"] == 1


def test_slices_that_are_not_near_are_not_searched() -> None:
    log, id_ = Log(), message_id(1)
    for one in sliced(VALUE, 5, id_):
        log.append(one)
    log.add(*[b"x"] * 100)
    at = log.append(build_batch([carrier_record(VALUE, 5, id_, (1, 2, 3))]))
    assert shown(Process(log, TopicSettings(look_back=50)).fetch(at).records(with_marker=True)) == []
    assert shown(Process(log).fetch(at).records(with_marker=True)) == [(at, VALUE)]


def test_a_value_that_is_not_the_one_that_was_sent_is_never_delivered() -> None:
    log, id_ = Log(), message_id(1)
    offsets = [log.append(one) for one in sliced(VALUE, 5, id_)]
    at = log.append(build_batch([carrier_record(VALUE, 5, id_, offsets, crc=1)]))
    assert shown(Process(log).fetch().records(with_marker=True)) == []
    assert ("dropped", at, "damaged") in log.reports


def test_another_message_is_not_delivered_for_pointers_to_it() -> None:
    log = large_log()
    at = log.append(build_batch([carrier_record(VALUE, 5, message_id(3), (1, 2, 3, 4))]))
    assert shown(Process(log).fetch(at).records(with_marker=True)) == []
    assert ("dropped", at, "missing") in log.reports


def test_a_record_that_says_it_is_a_segment_and_is_none_is_dropped() -> None:
    log = Log()
    log.append(build_batch([NewRecord(b"a"), NewRecord(b"x", b"k", (Header("_lm", b"short"),)), NewRecord(b"b")]))
    assert shown(Process(log).fetch().records(with_marker=True)) == [(0, b"a"), (2, b"b")]
    assert log.reports == [("dropped", 1, "damaged")]


# Transactions


@pytest.mark.parametrize("is_committed_only", [False, True])
def test_the_carrier_of_an_aborted_transaction_is_hidden_from_who_reads_committed_records(
    is_committed_only: bool,
) -> None:
    log, id_ = Log(), message_id(1)
    offsets = [log.append(one) for one in sliced(VALUE, 3, id_)]
    record = carrier_record(VALUE, 3, id_, offsets)
    log.append(build_batch([record], attributes=TRANSACTIONAL, producer_id=PID))
    log.append(build_batch([NewRecord(bytes(6), bytes(4))], attributes=0x30, producer_id=PID))
    aborted = (AbortedTransaction(producer_id=PID, first_offset=2),)
    delivery = Process(log).fetch(0, aborted=aborted if is_committed_only else None)
    assert shown(delivery.records(with_marker=True)) == ([] if is_committed_only else [(2, VALUE)])
    assert batches(delivery.records(with_marker=True) or b"")[-1].header.producer_id == PID  # the broker's own marker


# Clients that do not wait


def test_a_late_message_is_gone_on_with_in_the_next_request() -> None:
    log = large_log()
    process = Process(log, cache=SegmentCache(0))
    delivery = process.delivery(5)
    log.late_after, log.max_read = 1, 1
    log.run(delivery.feed(log.fetch(5, 1), ()))
    log.late_after = log.max_read = None
    assert (delivery.cut_at, delivery.records(with_marker=True), delivery.error_code) == (5, b"", None)
    log.reads.clear()
    assert shown(process.fetch(5).records(with_marker=True)) == SHOWN[1:]
    assert log.reads[0].offset == 2  # the first slice is there already


@given(st.binary(max_size=300), st.integers(0, 400))
def test_hostile_bytes_cost_no_more_than_their_batch(noise: bytes, at: int) -> None:
    log = Log()
    log.add_large(FIVE[:400], 3, 1)
    data = bytearray(log.fetch(0, 1 << 20))
    data[at : at + len(noise)] = noise
    delivery = Process(log).delivery()
    with suppress(CodecError):
        log.run(delivery.feed(bytes(data), ()))
    delivery.records(with_marker=True)


@pytest.mark.parametrize("topic", [TOPIC_ID, OTHER_TOPIC, "orders"])
@pytest.mark.parametrize("pointed", [TOPIC_ID, OTHER_TOPIC, bytes(16)])
def test_pointers_are_tried_whatever_topic_they_name(topic: bytes | str, pointed: bytes) -> None:
    """The writer may not know that the topic was created again, nor may the reader."""
    log = Log()
    log.add(b"first")
    offsets = [log.append(one) for one in sliced(VALUE, 5, message_id(1))]
    log.add(*[b"x"] * 2000)
    at = log.append(build_batch([carrier_record(VALUE, 5, message_id(1), offsets, topic_id=pointed)]))
    assert shown(Process(log, topic=topic).fetch(at).records(with_marker=True)) == [(at, VALUE)]
    assert log.counts["looked_back"] == 0


@pytest.mark.parametrize("shift", [-40, 40])
@pytest.mark.parametrize("near", range(1, 5), ids=lambda count: f"{count} slices near")
def test_in_a_copied_log_slices_are_found_as_far_from_where_they_were_as_those_that_are_near(
    near: int, shift: int
) -> None:
    log = Log()
    log.add(*[b"x"] * 50)
    slices = sliced(VALUE, 5, message_id(1))
    offsets = []
    for number, data in enumerate(slices):
        if number == len(slices) - near:
            log.add(*[b"y"] * 200)
        offsets.append(log.append(data) - shift)
        log.add(b"between")
    at = log.append(build_batch([carrier_record(VALUE, 5, message_id(1), offsets)]))
    log.add(*[b"z"] * 100)
    process = Process(log, TopicSettings(look_back=100))
    assert shown(process.fetch(at, 1).records(with_marker=True)) == [(at, VALUE)]


@pytest.mark.bulk
def test_pointers_to_nothing_do_not_make_the_sidecar_read_much() -> None:
    log, size = Log(), 60 << 20
    log.append(build_batch([NewRecord(b"x" * 100, b"k", (lm(message_id(9), 0, 4, size),))]))
    log.add(*[bytes(1000)] * 900)
    forged = [
        NewRecord(b"y", b"k", (lm(message_id(9), 3, 4, size), Header("_lmr", pointers.encode())))
        for pointers in [BackPointers(TOPIC_ID, number, (0, 5 + number, 300)) for number in range(20)]
    ]
    at = log.append(build_batch(forged))
    log.add(b"honest")
    assert shown(Process(log).fetch(at).records(with_marker=True)) == [(at + 20, b"honest")]
    assert all(read.max_bytes <= 1 << 20 for read in log.reads)


# What the broker does not say


@pytest.mark.parametrize("is_carrier", [True, False])
def test_an_empty_read_without_an_error_drops_nothing(is_carrier: bool) -> None:
    """As where a broker's own read of remote storage was too slow."""
    log = Log()
    log.add(b"first")
    end = log.add_large(VALUE, 5, 1) if is_carrier else log.add_segments(VALUE, 5, 1, range(5))[-1]
    log.add(b"last")
    log.is_empty = True
    delivery = Process(log).fetch(end)
    assert (delivery.cut_at, delivery.error_code) == (end, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (delivery.records(with_marker=True), log.reports) == (b"", [])
    log.is_empty = False
    assert shown(Process(log).fetch(end).records(with_marker=True)) == [(end, VALUE), (end + 1, b"last")]


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("is_carrier", [True, False])
def test_an_empty_read_says_only_where_the_log_begins(is_carrier: bool, start: int) -> None:
    log = Log()
    end = log.add_large(VALUE, 5, 1) if is_carrier else log.add_segments(VALUE, 5, 1, range(5))[-1]
    process = Process(log, cache=SegmentCache(0))
    delivery = process.delivery()
    log.run(delivery.feed(b"".join(log.batches[:-1]), ()))  # so all of the gap was seen
    log.is_empty, log.start = True, start
    delivery = process.fetch(end)
    assert delivery.error_code == (None if start else ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (("dropped", end, "missing") in log.reports) is bool(start)


@pytest.mark.parametrize("is_carrier", [True, False])
def test_what_is_before_the_start_of_the_log_is_missing_although_the_broker_reports_no_error(is_carrier: bool) -> None:
    log = Log()
    end = log.add_large(VALUE, 5, 1) if is_carrier else log.add_segments(VALUE, 5, 1, range(5))[-1]
    log.add(b"last")
    log.batches[1:3] = []
    log.start = 3
    delivery = Process(log).fetch(end)
    assert shown(delivery.records(with_marker=True)) == [(end + 1, b"last")]
    assert delivery.error_code is None


def test_a_reader_whose_log_has_not_what_the_client_has_gets_nothing_and_no_such_error() -> None:
    """A follower that lags after: the client must not go to the start of the log because of it."""
    log = large_log()
    log.add_segments(VALUE, 3, 9, range(3))
    delivery = Process(log, TopicSettings(look_back=5)).delivery(12)
    data, log.end = log.fetch(12, 1 << 20), 5
    log.run(delivery.feed(data, ()))
    assert (delivery.cut_at, delivery.error_code) == (12, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_slice_in_a_batch_with_much_else_is_found_when_it_is_read_again() -> None:
    log, id_ = Log(), message_id(1)
    others = [NewRecord(bytes(10_000), b"k") for _ in range(40)]
    parts = [NewRecord(part, b"k", (lm(id_, at, 3, 300),)) for at, part in enumerate(cut(b"v" * 300, 3))]
    log.append(build_batch([parts[0], *others, parts[1]]))
    at = log.append(build_batch([parts[2]]))
    assert shown(Process(log, cache=SegmentCache(0)).fetch(at).records(with_marker=True)) == [(at, b"v" * 300)]


def test_what_is_in_the_response_is_not_read_again_for_a_cache_that_has_no_room() -> None:
    log, value = Log(), bytes(400_000)  # slices that are views of the response
    at = log.add_large(value, 5, 1)
    delivery = Process(log, cache=SegmentCache(0)).fetch()
    assert shown(delivery.records(with_marker=True)) == [(at, value)]
    assert not log.reads


def test_messages_of_aborted_transactions_are_hidden_and_can_be_counted() -> None:
    log = Log()
    log.add(b"first")
    carrier = log.add_large(VALUE, 3, 1)
    data = log.batches[-1]
    aborted = build_batch(
        [NewRecord(one.value, one.key, tuple(one.headers)) for one in batches(data)[0].records()],
        base_offset=carrier, attributes=TRANSACTIONAL, producer_id=PID, producer_epoch=0,
    )  # fmt: skip
    log.batches[-1] = aborted
    log.add(b"last")
    delivery = Process(log).fetch(aborted=[AbortedTransaction(producer_id=PID, first_offset=carrier)])
    assert shown(delivery.records(with_marker=True)) == [(0, b"first"), (4, b"last")]
    assert delivery.has_aborted
    assert log.reports[-1] == ("aborted", carrier)
    whole = b"".join(delivery.pieces(with_marker=True, with_aborted=True) or ())
    assert shown(whole) == [(0, b"first"), (carrier, VALUE[-1:]), (4, b"last")]


# What is easily forgotten


def test_a_record_that_was_damaged_beside_a_large_message_is_withheld() -> None:
    """The batch is written again: with a new checksum it would look valid."""
    log = Log()
    offsets = [log.append(one) for one in sliced(VALUE, 3, message_id(1))]
    at = log.append(build_batch([NewRecord(b"AAAA"), carrier_record(VALUE, 3, message_id(1), offsets)]))
    log.batches[-1] = log.batches[-1].replace(b"AAAA", b"AABA")
    delivery = Process(log).fetch(at)
    assert (delivery.records(with_marker=True), delivery.error_code) == (b"", ErrorCode.CORRUPT_MESSAGE)


def test_what_was_collected_for_another_message_at_the_same_offset_is_not_delivered() -> None:
    """The log was truncated while a client asked again."""
    log = Log()
    log.add_large(VALUE, 5, 1)
    process = Process(log, cache=SegmentCache(0))
    delivery = process.delivery(4)
    log.late_after, log.max_read = 1, 1
    log.run(delivery.feed(log.fetch(4, 1), ()))
    log.late_after = log.max_read = None
    assert delivery.cut_at == 4
    log.batches, log.end = [], 0
    log.add_large(VALUE[::-1], 5, 2)
    assert shown(process.fetch(4).records(with_marker=True)) == [(4, VALUE[::-1])]


@pytest.mark.parametrize("order", [(0, 0, 1, 2, 3), (0, 1, 0, 2, 1, 3), (3, 3, 3, 0, 1, 2)])
def test_copies_of_a_segment_before_a_message_is_complete_change_nothing(order: tuple[int, ...]) -> None:
    log = Log()
    end = log.add_segments(VALUE, 4, 1, order)[-1]
    log.add(b"last")
    for cache in (SegmentCache(1 << 20), SegmentCache(0)):
        process = Process(log, TopicSettings(on_missing="fail"), cache=cache)
        assert consume(process) == [(end, VALUE), (end + 1, b"last")]
        assert consume(process, end, max_bytes=1) == [(end, VALUE), (end + 1, b"last")]


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_marker_for_a_part_of_a_batch_begins_at_the_clients_offset(offset: int) -> None:
    log = Log()
    log.append(build_batch([NewRecord(b"x", None, (lm(message_id(1), number, 5, 100),)) for number in range(3)]))
    delivery = Process(log).fetch(offset)
    (marker,) = batches(delivery.records(with_marker=True) or b"")
    header = marker.header
    assert delivery.hidden == (offset, 3)
    assert (header.base_offset, header.base_offset + header.last_offset_delta) == (offset, 2)


@pytest.mark.parametrize("is_of_all", [False, True], ids=["of the partition", "of the response"])
def test_records_that_come_before_a_message_in_its_batch_take_their_part_of_the_room(is_of_all: bool) -> None:
    log = Log()
    offsets = [log.append(one) for one in sliced(VALUE, 3, message_id(1))]
    at = log.append(build_batch([NewRecord(bytes(5000)), carrier_record(VALUE, 3, message_id(1), offsets)]))
    overhead = (64 << 10) + 1000
    for allowed, is_whole in ((len(VALUE) + 2000, False), (len(VALUE) + 7000, True)):
        response = room(allowed + overhead if is_of_all else 1 << 20)
        delivery = Process(log).fetch(at, (1 << 20) if is_of_all else allowed, response)
        assert (delivery.cut_at is None) is is_whole


# What has been seen, for committed offsets


def test_the_offsets_of_which_all_segments_were_reported_are_those_from_the_clients_offset_to_the_end() -> None:
    log = large_log()
    Process(log).fetch(0)
    Process(log).fetch(3)
    Process(log).fetch(0, max_bytes=1)
    assert log.ranges == [(0, log.end), (3, log.end), (0, 1)]


def test_they_end_where_the_response_does() -> None:
    log = large_log()
    damaged = bytearray(log.batches[3])
    damaged[-1] ^= 1
    log.batches[3] = bytes(damaged)
    Process(log).fetch(0)
    delivery = Process(large_log()).fetch(0, room=room(50))
    assert log.ranges == [(0, 3)]
    assert delivery.cut_at == 5
    assert delivery.log.report.ranges == [(0, 5)]  # type: ignore[attr-defined]


def test_what_a_gap_of_offsets_would_have_is_not_missing() -> None:
    log = large_log()
    del log.batches[:2]
    Process(log).fetch(1)
    Process(log).fetch(0)  # where the log begins is not known
    assert log.ranges == [(1, log.end), (2, log.end)]
