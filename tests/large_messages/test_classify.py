"""Which records are parts of large messages."""

from __future__ import annotations

import os
from typing import Any

import pytest
from crc32c import crc32c
from support.large_logs import TOPIC_ID, carrier_record, lm, message_id

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch, lone_record
from kafka_sidecar.codec.records.lone_record import MIN_VALUE_BYTES
from kafka_sidecar.large_messages import payload_format
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.classify import MAX_IN_BATCH, MIN_VIEW_BYTES, Damaged, Part, Reader
from kafka_sidecar.large_messages.lm_header import LEGACY_V2, V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import DefaultSegmentDeserializer, SegmentDeserializer
from kafka_sidecar.large_messages.settings import MAX_SEGMENTS

ID = message_id(7)
BASE = 100
SEGMENT = Segment(ID, 1, 3, 30, b"0123456789")


def parts(*records: NewRecord, deserializer: SegmentDeserializer | None = None) -> dict[int, Part | Damaged]:
    (batch,) = batches(build_batch(list(records), base_offset=BASE))
    return Reader("orders", deserializer or DefaultSegmentDeserializer()).parts(BASE, batch.records())


def one(record: NewRecord) -> Part:
    (found,) = parts(record).values()
    assert isinstance(found, Part)
    return found


def test_ordinary_records_are_no_parts() -> None:
    values = [None, b"", b"text", bytes(33), bytes(100), b"\xff" * 100]
    assert parts(*(NewRecord(value, b"key", (Header("h", b"1"),)) for value in values)) == {}


def test_a_segment_says_in_its_header_what_it_is() -> None:
    found = parts(NewRecord(b"plain"), NewRecord(b"0123456789", b"key", (lm(ID, 1, 3, 30),)), NewRecord(b"plain"))
    assert found == {1: Part(BASE + 1, SEGMENT, LmHeader(V3, ID, 1, 3, 30), False, None, True)}


@pytest.mark.parametrize("size", [MIN_VIEW_BYTES - 1, MIN_VIEW_BYTES, 300_000])
@pytest.mark.parametrize("others", [0, 1, MIN_VIEW_BYTES // 2, MIN_VIEW_BYTES])
def test_the_checksum_of_a_large_payload_follows_from_that_of_the_records(size: int, others: int) -> None:
    payload = os.urandom(size)
    segment = NewRecord(payload, b"key", (Header("h", b"1"), lm(ID, 1, 3, 1 << 20)))
    records = (NewRecord(os.urandom(others)), segment, NewRecord(b"last")) if others else (segment,)
    (batch,) = batches(build_batch(list(records), base_offset=BASE))
    opened = batch.records()
    reader = Reader("orders", DefaultSegmentDeserializer())
    (found,) = reader.parts(BASE, opened, crc32c(opened.payload)).values()
    assert isinstance(found, Part)
    is_known = size >= MIN_VIEW_BYTES > others
    assert found.segment.crc == (crc32c(payload) if is_known else None)
    (found,) = reader.parts(BASE, opened).values()
    assert isinstance(found, Part)
    assert found.segment.crc is None


@pytest.mark.parametrize("key", [None, b"key"])
def test_the_only_record_of_a_batch_is_the_same_part_without_a_copy(key: bytes | None) -> None:
    payload = os.urandom(MIN_VALUE_BYTES)
    segment = NewRecord(payload, key, (Header("h", b"1"), lm(ID, 1, 3, 1 << 20)))
    (batch,) = batches(build_batch([segment], base_offset=BASE))
    opened, lone = batch.records(), lone_record(batch)
    assert lone is not None
    reader, crc = Reader("orders", DefaultSegmentDeserializer()), crc32c(opened.payload)
    for known in (crc, None):
        found = reader.part_of(BASE, lone, known)
        assert found == reader.parts(BASE, opened, known)[0]
        assert isinstance(found, Part)
        assert found.segment.crc == (crc32c(payload) if known is not None else None)
        assert isinstance(found.segment.payload, memoryview)
        assert found.segment.payload.obj is batch.data.obj


def test_the_only_record_of_a_batch_that_its_header_does_not_explain_is_read_whole() -> None:
    value = payload_format.serialize(Segment(ID, 1, 3, 1 << 20, os.urandom(MIN_VALUE_BYTES)))
    delivered = Header("_lm", LmHeader(V3, ID, 1, 3, 1 << 20).as_delivered().encode())
    reader = Reader("orders", DefaultSegmentDeserializer())
    for headers in ((), (delivered,), (Header("_lm", LmHeader(LEGACY_V2, ID, 1, 3, 1 << 20).encode()),)):
        (batch,) = batches(build_batch([NewRecord(value, b"key", headers)], base_offset=BASE))
        lone = lone_record(batch)
        assert lone is not None
        assert reader.part_of(BASE, lone, None) is None
    (batch,) = batches(build_batch([NewRecord(value, b"key", (lm(ID, 1, 3, 1 << 20),))]))
    lone = lone_record(batch)
    assert lone is not None
    assert Reader("orders", DefaultSegmentDeserializer(), reads_objects=True).part_of(BASE, lone, None) is None


def test_a_segment_says_in_its_value_what_it_is() -> None:
    value = payload_format.serialize(SEGMENT)
    assert one(NewRecord(value, b"key")) == Part(BASE, SEGMENT, None, False, None, True)
    header = LmHeader(LEGACY_V2, ID, 1, 3, 30)
    assert one(NewRecord(value, b"key", (Header("_lm", header.encode()),))).header == header


def test_a_carrier_has_pointers() -> None:
    found = one(carrier_record(b"value", 3, ID, (10, 12)))
    assert found.is_carrier
    assert found.pointers is not None
    assert (found.pointers.topic_id, found.pointers.offsets) == (TOPIC_ID, (10, 12))
    assert found.segment == Segment(ID, 2, 3, 5, b"e")


@pytest.mark.parametrize(
    "pointers",
    [
        b"",
        b"\2" + BackPointers(TOPIC_ID, 1, (1, 2)).encode()[1:],
        BackPointers(TOPIC_ID, 1, (1,)).encode(),  # too few
        BackPointers(TOPIC_ID, 1, (1, 2, 3)).encode(),  # too many
        BackPointers(TOPIC_ID, 1, (1, 1)).encode(),  # twice the same
    ],
)
def test_a_carrier_whose_pointers_cannot_be_right_has_none(pointers: bytes) -> None:
    found = one(NewRecord(b"e", b"key", (lm(ID, 2, 3, 5), Header("_lmr", pointers))))
    assert found.is_carrier
    assert found.pointers is None


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (None, b"x"),
        (b"short", b"x"),
        (LmHeader(V3, ID, 3, 3, 30).encode(), b"x"),  # a number that does not exist
        (LmHeader(V3, ID, 0, 0, 30).encode(), b"x"),
        (LmHeader(V3, ID, 0, 3, 2).encode(), b"xxx"),  # more than the whole message
        (LmHeader(V3, ID, 0, 3, 2).encode(), b""),
        (LmHeader(V3, ID, 0, 3, 2).encode(), None),
        (LmHeader(V3, ID, 0, 3, 30).encode()[:25], b"x"),  # without the size
        (LmHeader(V3, ID, 0, 1 << 30, 1 << 31 - 1).encode(), b"x"),  # of a billion
    ],
)
def test_a_segment_that_cannot_be_one_is_damaged(header: bytes | None, value: bytes | None) -> None:
    (found,) = parts(NewRecord(value, b"key", (Header("_lm", header),))).values()
    assert isinstance(found, Damaged)
    assert found.offset == BASE


def test_a_message_may_have_so_many_segments_and_no_more() -> None:
    for count, kind in ((MAX_SEGMENTS, Part), (MAX_SEGMENTS + 1, Damaged)):
        (found,) = parts(NewRecord(b"x", b"key", (lm(ID, 0, count, count),))).values()
        assert isinstance(found, kind)


def test_what_is_already_assembled_is_no_part() -> None:
    for header in (
        LmHeader(V3, ID, 1, 3, 30).as_delivered(),
        LmHeader(V3, ID, -1, 3, 30),
        LmHeader(V3, bytes(16), 1, 3),
    ):
        assert parts(NewRecord(b"value", b"key", (Header("_lm", header.encode()),))) == {}


def test_a_slice_without_a_key_completes_nothing() -> None:
    headers = (lm(ID, 1, 3, 30),)
    assert one(NewRecord(b"0123456789", b"", headers)).may_complete
    assert not one(NewRecord(b"0123456789", None, headers)).may_complete
    assert one(NewRecord(b"whole", None, (lm(ID, 0, 1, 5),))).may_complete
    assert one(carrier_record(b"value", 3, ID, (10, 12), key=None)).may_complete


class Letters(SegmentDeserializer):
    """A segment of two for each value that begins with a digit."""

    def deserialize(self, topic: str, value: bytes) -> Segment | None:
        if value == b"crash":
            raise RuntimeError("a bug")
        return Segment(ID, int(value[:1]), 2, 10, value[1:]) if value[:1] in {b"0", b"1"} else None


def test_a_deserializer_of_its_own_reads_values_without_the_header() -> None:
    records: list[Any] = [NewRecord(b"0abc"), NewRecord(b"text"), NewRecord(b"crash"), NewRecord(None)]
    found = parts(*records, deserializer=Letters())
    assert {index: part.segment for index, part in found.items() if isinstance(part, Part)} == {
        0: Segment(ID, 0, 2, 10, b"abc")
    }


@pytest.mark.bulk
def test_of_very_many_segments_in_one_batch_the_rest_is_damaged_and_messages_of_one_segment_are_not() -> None:
    of_two = [NewRecord(b"1", b"k", (lm(message_id(at + 1), 0, 2, 100),)) for at in range(MAX_IN_BATCH + 2)]
    others = [
        NewRecord(b"1", b"k", (lm(message_id(7), 0, 1, 1),)),
        NewRecord(b"1", b"k", (lm(bytes(16), -1, 2, 100),)),
        NewRecord(b"1", b"k"),
    ]
    found = parts(*of_two, *others)
    assert [*found] == [*range(MAX_IN_BATCH + 3)]
    assert [index for index, part in found.items() if isinstance(part, Damaged)] == [MAX_IN_BATCH, MAX_IN_BATCH + 1]
