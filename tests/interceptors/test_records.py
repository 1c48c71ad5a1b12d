"""Records as interceptors get them: lazily decoded, and immutable except for their headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.codec.records import KEEP, Change, Header, Records
from kafka_sidecar.interceptors.contract import Context, RecordMetadata, TopicPartition
from kafka_sidecar.interceptors.headers import ReadOnlyError
from kafka_sidecar.interceptors.records import BatchInfo, ConsumerRecord, ConsumerRecords, ProducerRecord, record_of

NOW = 1_700_000_000_000
Batches = Callable[..., Records]
H = ("h", b"1")


@pytest.fixture
def place(context: Callable[[], Context]) -> BatchInfo:
    return BatchInfo("orders", 3, context(), [], base_offset=40, leader_epoch=7)


@pytest.fixture
def record(a_batch: Batches, place: BatchInfo) -> ProducerRecord:
    records = a_batch({}, {"key": b"k", "value": b"v", "headers": [H], "timestamp": NOW + 5})
    return record_of(ProducerRecord, place, records[1])


def test_a_producer_record_has_the_fields_of_the_batch(record: ProducerRecord, place: BatchInfo) -> None:
    assert (record.topic, record.partition, record.index, record.timestamp) == ("orders", 3, 1, NOW + 5)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"v", [Header(*H)])
    assert record.context is place.context


def test_a_consumer_record_has_offset_leader_epoch_and_serialized_sizes(a_batch: Batches, place: BatchInfo) -> None:
    records = a_batch({"value": None, "offset": 0}, {"value": b"four", "key": b"", "offset": 5})
    first, second = (record_of(ConsumerRecord, place, record) for record in records)
    assert (first.offset, second.offset, second.leader_epoch, second.has_log_append_time) == (40, 45, 7, False)
    assert (first.serialized_key_size, first.serialized_value_size) == (-1, -1)
    assert (second.serialized_key_size, second.serialized_value_size) == (0, 4)
    assert second.replace(value=b"longer than it came").serialized_value_size == 4
    assert record_of(ConsumerRecord, place._replace(append_time=True), records[0]).has_log_append_time


def test_the_checksum_of_a_consumed_record_is_that_of_the_record_as_it_was_read(
    a_batch: Batches, place: BatchInfo
) -> None:
    records = a_batch({"key": b"k", "value": b"four", "timestamp": NOW}, {"key": None, "value": None, "timestamp": NOW})
    sent = [RecordMetadata("orders", 3, 40, NOW, 1, 4), RecordMetadata("orders", 3, 41, NOW, -1, -1)]
    read = [record_of(ConsumerRecord, place, record) for record in records]
    assert [record.checksum for record in read] == [metadata.checksum for metadata in sent]
    assert read[0].replace(value=b"longer than it was").checksum == sent[0].checksum


def test_an_unchanged_record_has_no_change(record: ProducerRecord) -> None:
    assert record.change() is None
    assert list(record.headers)
    record.headers.remove("not there")
    assert record.change() is None
    assert record.replace().change() is None


def test_replace_returns_a_new_record_and_keeps_the_original(record: ProducerRecord) -> None:
    other = record.replace(key=None, value=b"w")
    assert (other.key, other.value, list(other.headers)) == (None, b"w", [Header(*H)])
    assert (record.key, record.value) == (b"k", b"v")
    assert other.change() == Change(None, b"w", KEEP)
    assert record.change() is None


def test_headers_can_be_replaced_as_a_whole(record: ProducerRecord) -> None:
    other = record.replace(headers=[("x", None), Header(b"\xff", b"")])
    other.headers.add("y", b"")
    assert other.change() == Change(headers=(Header("x", None), Header(b"\xff", b""), Header("y", b"")))
    assert list(record.headers) == [Header(*H)]
    assert record.replace(headers=()).change() == Change(headers=())


def test_headers_are_changed_in_place(record: ProducerRecord) -> None:
    record.headers.add("x", b"2").remove("h")
    assert record.change() == Change(headers=(Header("x", b"2"),))
    assert record.replace(value=b"w").change() == Change(value=b"w", headers=(Header("x", b"2"),))


@pytest.mark.parametrize("wrong", ["text", 1, bytearray(b"x"), [b"x"]])
@pytest.mark.parametrize("what", ["key", "value"])
def test_a_key_or_value_that_is_not_bytes_raises_type_error(what: str, wrong: Any, record: ProducerRecord) -> None:
    with pytest.raises(TypeError, match=f"the {what} of a record is {type(wrong).__name__}: it must be bytes or None"):
        record.replace(**{what: wrong})
    with pytest.raises(TypeError, match=f"the {what} of a record is"):
        ProducerRecord("orders", 3, **{what: wrong})
    with pytest.raises(TypeError, match=f"the {what} of a record is"):
        ConsumerRecord("orders", 3, 7, **{what: wrong})


@pytest.mark.parametrize("name", ["key", "value", "headers", "topic", "partition", "timestamp"])
def test_attributes_of_a_record_cannot_be_assigned(name: str, record: ProducerRecord) -> None:
    with pytest.raises(AttributeError):
        setattr(record, name, None)


def test_a_record_created_by_an_interceptor_has_all_fields(context: Callable[[], Context]) -> None:
    record = ConsumerRecord("orders", 3, 7, b"k", None, [H], NOW, context())
    assert (record.topic, record.partition, record.offset, record.index) == ("orders", 3, 7, -1)
    assert (record.timestamp, record.serialized_key_size, record.serialized_value_size) == (NOW, 1, -1)
    record.headers.add("x", None)
    assert record.change() == Change(b"k", None, (Header(*H), Header("x", None)))


def test_a_record_created_by_an_interceptor_can_replace_one_record_only(
    record: ProducerRecord, a_batch: Batches
) -> None:
    made = ProducerRecord("orders", 3, value=b"new")
    made.adopt(record)
    assert (made.index, made.timestamp, made.context) == (1, NOW + 5, record.context)
    assert made.change() == Change(None, b"new", ())
    with pytest.raises(ValueError, match="one record was returned in place of another"):
        made.adopt(record_of(ProducerRecord, BatchInfo("orders", 3, record.context, []), a_batch({})[0]))


def test_after_the_chain_headers_are_read_only_also_if_never_read(
    record: ProducerRecord, place: BatchInfo, a_batch: Batches
) -> None:
    seen = record_of(ProducerRecord, place, a_batch({"headers": [H]})[0])
    assert len(seen.headers) == 1
    for one in (seen, record):
        one.close(place._replace(journal=None))
        with pytest.raises(ReadOnlyError):
            one.headers.add("x", b"")
        assert list(one.headers) == [Header(*H)]


def test_the_repr_of_a_record_has_no_payload(record: ProducerRecord) -> None:
    assert repr(record) == "ProducerRecord(topic='orders', partition=3)"


def test_consumer_records_have_the_methods_of_kafkas_class(context: Callable[[], Context]) -> None:
    made = [ConsumerRecord("orders", partition, 7) for partition in (0, 1, 0)]
    records = ConsumerRecords(made, own := context())
    assert records.partitions() == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert records.records(TopicPartition("orders", 0)) == [made[0], made[2]]
    assert records.records("orders") == made
    assert records.records("other") == []
    assert (records.count(), len(records), records.is_empty(), records.context) == (3, 3, False, own)
    assert ConsumerRecords(()).is_empty()
