"""A records field is cut into batches."""

from __future__ import annotations

import struct
from random import Random

import pytest

from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.records import (
    BATCH_HEADER_SIZE,
    BatchHeader,
    BatchTooLargeError,
    Codec,
    NewRecord,
    batches,
    build_batch,
)
from kafka_sidecar.codec.records.batch import header_at

TIME = 1_700_000_000_000
ONE = build_batch([NewRecord(b"value")], base_offset=7)


def patched(batch: bytes, at: int, data: bytes) -> bytes:
    return batch[:at] + data + batch[at + len(data) :]


def test_batches_are_read_in_order_as_views_of_the_same_bytes() -> None:
    data = ONE + build_batch([]) + ONE

    found = batches(memoryview(data))

    assert [batch.header.count for batch in found] == [1, 0, 1]
    assert b"".join(bytes(batch.data) for batch in found) == data
    assert all(batch.data.obj is data for batch in found)
    assert batches(b"") == []


@pytest.mark.parametrize("size", range(1, len(ONE)))
def test_a_truncated_batch_is_rejected_or_omitted(size: int) -> None:
    with pytest.raises(TruncatedError):
        batches(ONE + ONE[:size])

    assert [bytes(batch.data) for batch in batches(ONE + ONE[:size], may_end_early=True)] == [ONE]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_an_invalid_batch_length_is_rejected_also_where_a_truncated_batch_is_allowed(length: int) -> None:
    data = patched(ONE, 8, length.to_bytes(4, "big", signed=True))

    with pytest.raises(CodecError, match="at least 61"):
        batches(data, may_end_early=True)


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_rejected(magic: int) -> None:
    with pytest.raises(CodecError, match=f"magic {magic}"):
        batches(patched(ONE, 16, bytes((magic,))))


def test_the_checksum_fails_if_a_byte_that_it_covers_is_changed() -> None:
    for at in range(len(ONE)):
        (batch,) = batches(patched(ONE, at, bytes((ONE[at] ^ 1,)))) if at not in (*range(8, 12), 16) else batches(ONE)

        assert batch.crc_is_right() == (at < 17), at


def test_the_checksum_fails_if_a_bit_of_it_is_changed() -> None:
    for bit in range(32):
        wrong = int.from_bytes(ONE[17:21]) ^ 1 << bit
        (batch,) = batches(patched(ONE, 17, wrong.to_bytes(4)))
        assert not batch.crc_is_right(), bit


def test_records_and_header_of_an_older_format_cannot_be_read() -> None:
    message = bytes.fromhex("0000000000000000000000101fecd70a0000000000016b0000000176")

    (batch,) = batches(message)

    assert batch.magic == 0
    assert batch.crc_is_right()
    with pytest.raises(CodecError, match="magic 0"):
        batch.records()
    with pytest.raises(CodecError, match="magic 0"):
        _ = batch.header


def test_records_larger_than_the_limit_are_rejected() -> None:
    (batch,) = batches(build_batch([NewRecord(bytes(1000))], codec=Codec.ZSTD))
    size = len(batch.records().payload)

    assert len(batch.records(size)) == 1
    with pytest.raises(BatchTooLargeError, match=f"more than {size - 1} bytes"):
        batch.records(size - 1)


def test_more_records_than_the_limit_are_rejected_before_they_are_decompressed() -> None:
    (batch,) = batches(build_batch([NewRecord(b"a")] * 5, codec=Codec.ZSTD))

    assert len(batch.records(max_records=5)) == 5
    with pytest.raises(BatchTooLargeError, match="the batch has 5 records, more than 4"):
        batch.records(max_records=4)
    damaged = patched(build_batch([NewRecord(b"a")] * 5, codec=Codec.ZSTD), 61, bytes(8))
    with pytest.raises(BatchTooLargeError):
        batches(damaged)[0].records(max_records=4)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_codec_is_rejected(codec: int) -> None:
    (batch,) = batches(patched(ONE, 22, bytes((codec,))))

    with pytest.raises(CodecError, match=f"unknown compression codec {codec}"):
        batch.records()


def test_with_log_append_time_every_record_has_the_timestamp_of_the_batch() -> None:
    records = [NewRecord(b"a"), NewRecord(b"b", timestamp_delta=5)]

    (of_client,) = batches(build_batch(records, base_timestamp=TIME))
    (of_broker,) = batches(build_batch(records, base_timestamp=TIME, max_timestamp=TIME + 99, attributes=0x08))

    assert [record.timestamp for record in of_client.records()] == [TIME, TIME + 5]
    assert [record.timestamp for record in of_broker.records()] == [TIME + 99, TIME + 99]
    assert [record.timestamp_delta for record in of_broker.records()] == [0, 5]


def test_log_append_time_of_a_producer_is_not_the_time_of_its_records() -> None:
    """A broker clears the bit, and consumers read the timestamps of the records."""
    new = [NewRecord(b"a"), NewRecord(b"b", timestamp_delta=5)]
    (sent,) = batches(build_batch(new, base_timestamp=TIME, max_timestamp=TIME + 99, attributes=0x08))

    records = sent.records(as_sent=True)

    assert [record.timestamp for record in records] == [*records.timestamps()] == [TIME, TIME + 5]
    assert records[1].timestamp == TIME + 5
    assert [record.timestamp for record in records.with_payload(bytes(records.payload))] == [TIME, TIME + 5]


LAYOUT = struct.Struct(">qiibIhiqqqhii")
FIELDS = (
    "base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta", "base_timestamp",
    "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip


def header_of(*values: int) -> BatchHeader:
    header = header_at(memoryview(LAYOUT.pack(*values)), 0)
    assert header is not None
    return header


def test_every_field_of_a_batch_header_is_read() -> None:
    data = build_batch(
        [NewRecord(b"v"), NewRecord(b"w", timestamp_delta=-5, offset_delta=9)],
        codec=Codec.GZIP, attributes=0x70, base_offset=2**40, leader_epoch=3, base_timestamp=TIME,
        max_timestamp=TIME + 1, producer_id=2**33, producer_epoch=11, base_sequence=2**31 - 1,
    )  # fmt: skip

    (batch,) = batches(data)

    header = batch.header
    assert (header.base_offset, header.length, header.leader_epoch, header.magic) == (2**40, len(data) - 12, 3, 2)
    assert (header.last_offset_delta, header.base_timestamp, header.max_timestamp) == (9, TIME, TIME + 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**33, 11, 2**31 - 1)
    assert (header.count, header.codec, header.attributes) == (2, Codec.GZIP, 0x71)
    assert header.is_transactional
    assert header.is_control
    assert not header.has_log_append_time


@pytest.mark.parametrize("fill", [b"\x00", b"\x7f", b"\x80", b"\xff", None])
def test_every_header_value_is_read_at_any_offset(fill: bytes | None) -> None:
    data = Random(1).randbytes(BATCH_HEADER_SIZE) if fill is None else fill * BATCH_HEADER_SIZE
    data = data[:16] + b"\x02" + data[17:]

    header = header_at(memoryview(b"before" + data + b"after"), 6)

    assert header is not None
    assert tuple(getattr(header, name) for name in FIELDS) == LAYOUT.unpack(data)
    assert header.fields() == dict(zip(FIELDS, LAYOUT.unpack(data), strict=True))


def test_a_truncated_or_older_batch_has_no_header() -> None:
    data = LAYOUT.pack(*range(3), 2, *range(4, 13))

    assert header_at(memoryview(data), 0) is not None
    assert header_at(memoryview(data), 1) is None
    assert header_at(memoryview(data[:-1]), 0) is None
    assert header_at(memoryview(data[:16] + b"\x01" + data[17:]), 0) is None


def test_bytes_that_are_not_contiguous_are_rejected() -> None:
    data = bytes(one for byte in build_batch([NewRecord(b"v")]) for one in (byte, 0))

    with pytest.raises(BufferError):
        batches(memoryview(data)[::2])


def test_batch_headers_are_equal_if_all_fields_are_equal() -> None:
    values = (0, 1, 2, 2, *range(4, 13))

    assert header_of(*values) == header_of(*values)
    assert hash(header_of(*values)) == hash(header_of(*values))
    assert header_of(*values) != values
    for at in (place for place in range(13) if FIELDS[place] != "magic"):
        assert header_of(*values) != header_of(*(value + (at == place) for place, value in enumerate(values)))


def test_the_repr_of_a_batch_header_has_its_fields() -> None:
    assert repr(header_of(0, 1, 2, 2, *range(4, 13))) == (
        "BatchHeader(base_offset=0, length=1, leader_epoch=2, magic=2, crc=4, attributes=5, last_offset_delta=6, "
        "base_timestamp=7, max_timestamp=8, producer_id=9, producer_epoch=10, base_sequence=11, count=12)"
    )
