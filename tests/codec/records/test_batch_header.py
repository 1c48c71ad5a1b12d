"""The header of a batch has the values of its 61 bytes."""

from __future__ import annotations

import struct
from random import Random

import pytest

from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, BatchHeader, Codec, NewRecord, batches, build_batch
from kafka_sidecar.codec.records.batch_header import header_at

TIME = 1_700_000_000_000
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
