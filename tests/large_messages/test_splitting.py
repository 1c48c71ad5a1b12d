"""Batches split for a topic's limit: what is stored is small enough, and nothing of it is lost or changed.

What is stored is read by aiokafka's parser, which is not ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from aiokafka.record import MemoryRecords
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import Batch, Codec, Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages import back_pointers, lm_header, payload_format
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.lm_header import LEGACY_V2, V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import DefaultSegmentSerializer, SegmentSerializer
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.large_messages.splitting import RefusedError, Split, Target, split, strip_delivered

LIMIT = 4096
TOPIC_ID = bytes(range(16))
# Of a client's batch, all of which must stay.
KEPT = {
    "producer_id": 5,
    "producer_epoch": 2,
    "base_sequence": 70,
    "base_timestamp": 1_700_000_000_000,
    "attributes": 16,
}


def target(limit: int = LIMIT, is_compacted: bool = False, partition: int = 3, **settings: Any) -> Target:
    return Target("orders", TOPIC_ID, partition, limit, is_compacted, TopicSettings(**settings), os.urandom)


def batch_of(records: Iterable[NewRecord], codec: int = 0, **header: Any) -> Batch:
    (batch,) = batches(build_batch(records, codec=codec, **header))
    return batch


def divided(batch: Batch, where: Target) -> Split:
    return split(batch, batch.records(1 << 30), where)


def joined(parts: Any) -> bytes:
    return b"".join(parts)


def stored(data: bytes) -> list[Any]:
    """The records of a batch as aiokafka reads them, checksum included."""
    (batch,) = list(_batches(data))
    assert batch.validate_crc()
    return list(batch)


def _batches(data: bytes) -> Iterable[Any]:
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        yield batch


def assembled(found: Split, offsets: list[int]) -> list[tuple[bytes | None, bytes | None, list[Any]]]:
    """The client's records again, from what is stored, by the rule alone."""
    log = {offset: stored(joined(one))[0] for offset, one in zip(offsets, found.slices, strict=True)}
    records = []
    for record in stored(found.carrier(offsets)):
        headers, value = dict(record.headers), record.value
        kept = [(key, data) for key, data in record.headers if key not in ("_lm", "_lmr")]
        if "_lmr" in headers:
            last = LmHeader.decode(headers["_lm"])
            pointers = BackPointers.decode(headers["_lmr"], 100_000)
            slices = [log.pop(offset) for offset in pointers.offsets]
            parts = [LmHeader.decode(dict(one.headers)["_lm"]) for one in slices]
            assert [part.number for part in parts] == list(range(last.count - 1)) == list(range(last.number))
            assert {(part.message_id, part.count, part.size) for part in (*parts, last)} == {
                (last.message_id, last.count, last.size)
            }
            assert {(one.key, one.timestamp) for one in slices} == {(None, record.timestamp)}
            value = b"".join(one.value for one in slices) + value
            assert (len(value), crc32c(value), pointers.topic_id) == (last.size, pointers.crc, TOPIC_ID)
        records.append((record.key, value, kept))
    assert log == {}
    return records


@st.composite
def values(draw: st.DrawFn) -> bytes:
    size = draw(st.sampled_from([0, 10, 300, 3000, 4000, 5000, 20_000, 60_000]))
    random = Random(draw(st.integers(0, 1000)))
    if draw(st.booleans()):
        return random.randbytes(size)
    return b"".join(random.choice([b"abc", b"abcdefgh", b"0" * 50, random.randbytes(9)]) for _ in range(size // 9))


@pytest.mark.bulk
@settings(max_examples=60)
@given(
    st.lists(values(), min_size=1, max_size=5),
    st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]),
    st.integers(0, 1 << 45),
    st.sampled_from([1400, LIMIT, 20_000]),
)
def test_what_is_stored_is_small_enough_and_has_all_that_was_sent(
    sent: list[bytes], codec: Codec, first: int, limit: int
) -> None:
    records = [
        NewRecord(value, b"k%d" % number, (Header("h", b"v"),), timestamp_delta=number)
        for number, value in enumerate(sent)
    ]
    batch = batch_of(records, codec, **KEPT)
    if len(batch.data) <= limit:
        return
    found = divided(batch, target(limit))
    offsets = [first + 3 * number for number in range(len(found.slices))]
    assert all(len(joined(one)) <= limit for one in found.slices)
    carrier = found.carrier(offsets)
    assert len(carrier) <= limit
    assert assembled(found, offsets) == [(one.key, one.value, [("h", b"v")]) for one in records]


@pytest.mark.parametrize("codec", Codec)
def test_the_header_of_the_clients_batch_stays_but_for_length_and_checksum(codec: Codec) -> None:
    batch = batch_of([NewRecord(os.urandom(LIMIT)), NewRecord(b"small")], codec, **KEPT)
    found = divided(batch, target())
    carrier = found.carrier(list(range(len(found.slices))))
    assert carrier[:8] == batch.data[:8]
    assert carrier[12:17] == batch.data[12:17]
    assert carrier[21:61] == batch.data[21:61]


@pytest.mark.parametrize(
    ("epoch", "sequence"), [(-1, -1), (0, 0), (0, -1), (-1, 0)], ids=["java", "sarama", "aiokafka", "kafkajs"]
)
def test_a_batch_without_a_producer_id_keeps_epoch_and_sequence(epoch: int, sequence: int) -> None:
    batch = batch_of([NewRecord(bytes(LIMIT))], producer_id=-1, producer_epoch=epoch, base_sequence=sequence)
    found = divided(batch, target())
    (carrier,) = batches(found.carrier(list(range(len(found.slices)))))
    header = carrier.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, epoch, sequence)


def test_slices_have_no_producer_and_no_flags_but_the_codec() -> None:
    batch = batch_of([NewRecord(os.urandom(3 * LIMIT))], Codec.ZSTD, **KEPT)
    for one in divided(batch, target()).slices:
        (written,) = batches(joined(one))
        header = written.header
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert (header.attributes, header.count, header.last_offset_delta) == (Codec.ZSTD, 1, 0)
        assert header.base_timestamp == header.max_timestamp == KEPT["base_timestamp"]


def test_only_as_many_values_are_split_as_needed_the_largest_first() -> None:
    sizes = [100, 3000, 500, 90_000, 100, 2000, 80_000]
    batch = batch_of([NewRecord(os.urandom(size)) for size in sizes])
    assert [value.index for value in divided(batch, target(LIMIT * 2)).values] == [3, 6]


def test_a_slice_has_106_bytes_beside_its_payload() -> None:
    batch = batch_of([NewRecord(bytes(300_000))])
    found = divided(batch, target(100_000))
    assert [len(joined(one)) - len(one[2]) for one in found.slices] == [106] * 4
    assert len(divided(batch, target(segment=1500)).slices) == -(-299_999 // (1500 - 108))


def test_slices_are_cut_by_their_compressed_size() -> None:
    lines = b"".join(b'{"id": %d, "text": "%s"}\n' % (at, os.urandom(8).hex().encode()) for at in range(60_000))
    batch = batch_of([NewRecord(lines)], Codec.ZSTD)
    needed = len(batch.data) / 100_000
    assert len(lines) > 2 * len(batch.data)
    found = divided(batch, target(100_000))
    assert needed <= len(found.slices) <= needed * 1.12 + 1
    assert assembled(found, list(range(len(found.slices))))[0][1] == lines


def test_a_value_half_of_which_compresses_is_cut_into_few_slices() -> None:
    value = bytes(1_000_000) + os.urandom(500_000)
    batch = batch_of([NewRecord(value)], Codec.LZ4)
    found = divided(batch, target(100_000))
    assert len(found.slices) <= 12
    assert assembled(found, list(range(len(found.slices))))[0][1] == value


def test_the_id_of_a_message_is_the_same_if_an_idempotent_producer_sends_it_again() -> None:
    value = os.urandom(3 * LIMIT)

    def message_id(where: Target, records: int = 1, **header: Any) -> bytes:
        small = [NewRecord(b"x") for _ in range(records - 1)]
        (one,) = divided(batch_of([*small, NewRecord(value)], **(KEPT | header)), where).values
        return one.cut.header.message_id

    first = message_id(target())
    assert message_id(target()) == first
    others = [
        message_id(target(), base_sequence=71), message_id(target(), producer_id=6), message_id(target(), 3),
        message_id(target(), producer_epoch=3), message_id(target(), base_timestamp=1), message_id(target(LIMIT + 1)),
        message_id(target(partition=4)), message_id(target(), producer_id=-1), message_id(target(), producer_id=-1),
    ]  # fmt: skip
    assert len({first, *others}) == 10


def test_a_sequence_number_that_begins_again_at_zero_is_that_of_the_broker() -> None:
    value = os.urandom(3 * LIMIT)

    def message_id(sequence: int, before: int) -> bytes:
        records = [*(NewRecord(b"x") for _ in range(before)), NewRecord(value)]
        (one,) = divided(batch_of(records, **(KEPT | {"base_sequence": sequence})), target()).values
        return one.cut.header.message_id

    assert message_id((1 << 31) - 1, 1) == message_id(0, 0)


def test_the_payload_format_is_that_of_li() -> None:
    value = os.urandom(3 * LIMIT)
    serializer = DefaultSegmentSerializer()
    batch = batch_of([NewRecord(value)])
    found = divided(batch, target(serializer=serializer))
    assert all(len(joined(one)) <= LIMIT for one in found.slices)
    records = [stored(joined(one))[0] for one in found.slices] + stored(found.carrier(list(range(len(found.slices)))))
    segments = [payload_format.deserialize(one.value) for one in records]
    assert b"".join(bytes(one.payload) for one in segments if one is not None) == value
    assert {LmHeader.decode(dict(one.headers)["_lm"]).type for one in records} == {LEGACY_V2}


class Uneven(SegmentSerializer):
    def serialize(self, topic: str, segment: Segment) -> bytes:
        return bytes(segment.payload) + bytes(10 * segment.number)


class Failing(SegmentSerializer):
    def serialize(self, topic: str, segment: Segment) -> bytes:
        raise KeyError(topic)


def test_a_serializer_that_writes_too_much_or_fails_has_nothing_written() -> None:
    batch = batch_of([NewRecord(bytes(50 * LIMIT))])
    with pytest.raises(RefusedError, match="the serializer adds more bytes to some slices"):
        divided(batch, target(serializer=Uneven()))
    with pytest.raises(KeyError):
        divided(batch, target(serializer=Failing()))


@pytest.mark.parametrize(
    ("records", "where", "code", "reason", "message"),
    [
        ([2000], target(1500, max_message=1999), 10, "too_large", "2000 bytes, more than the 1999 of large_messages.t"),
        ([200] * 100, target(), 10, "small_values", "lower the batch size"),
        ([5000], target(is_compacted=True), 10, "compacted", "compacted: unique"),
        ([5000], target(is_compacted=True, compacted="unique"), 87, "no_key", "without a key"),
        ([5000], target(150), 10, "slices", "150 bytes have no room for a slice"),
        ([5_000_000], target(300), 10, "slices", "more than 10000"),
    ],
)
def test_what_cannot_be_split_is_refused(
    records: list[int], where: Target, code: ErrorCode, reason: str, message: str
) -> None:
    batch = batch_of([NewRecord(bytes(size)) for size in records])
    with pytest.raises(RefusedError, match=message) as refused:
        divided(batch, where)
    assert (refused.value.error_code, refused.value.reason) == (code, reason)


def test_in_a_compacted_topic_each_attempt_has_keys_of_its_own() -> None:
    batch = batch_of([NewRecord(os.urandom(3 * LIMIT), b"key")], **KEPT)
    where = target(is_compacted=True, compacted="unique")
    keys = [stored(joined(one))[0].key for _ in range(2) for one in divided(batch, where).slices]
    assert len(set(keys)) == len(keys) == 8
    assert {(len(key), key[:3]) for key in keys} == {(3 + 16 + 4, b"key")}


def test_segments_that_li_has_written_are_not_split_again() -> None:
    header = Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 10_000).encode())
    batch = batch_of([NewRecord(bytes(5000), None, (header,))])
    with pytest.raises(RefusedError, match="lower the batch size"):
        divided(batch, target())


def test_headers_of_a_message_that_was_assembled_before_are_replaced() -> None:
    old = [
        Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 10_000).as_delivered().encode()),
        Header(back_pointers.KEY, b"any"), Header("mine", b"1"),
    ]  # fmt: skip
    found = divided(batch_of([NewRecord(bytes(5000), None, old)]), target())
    (record,) = stored(found.carrier([7, 8]))
    assert [key for key, _ in record.headers] == ["mine", "_lm", "_lmr"]
    assert LmHeader.decode(dict(record.headers)["_lm"]).number == 2


def test_headers_of_assembled_messages_are_removed_and_others_stay() -> None:
    delivered = Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 9).as_delivered().encode())
    genuine = Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 9).encode())
    others = [Header("a", b"1"), genuine, Header(lm_header.KEY, b"short"), Header(lm_header.KEY, None)]
    batch = batch_of([NewRecord(b"1", None, (*others, delivered)), NewRecord(b"2", None, others), NewRecord(b"3")])
    left = strip_delivered(batch.records())
    assert [list(record.headers) for record in left] == [others, others, []]
    untouched = batch_of([NewRecord(b"_lm", b"_lm")]).records()
    assert strip_delivered(untouched) is untouched
