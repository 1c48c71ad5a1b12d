"""A records field is cut into batches."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.records import BatchTooLargeError, Codec, NewRecord, batches, build_batch

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
