"""Whole batches of Avro values."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.records import NewRecord, Records, batches, build_batch
from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.avro.walk import find_not_avro

INT = AvroSchema.parse('"int"').program


def records(*values: bytes | None, of_key: bool = False, codec: int = 3) -> Records:
    new = [NewRecord(None, value) if of_key else NewRecord(value) for value in values]
    (batch,) = batches(build_batch(new, codec=codec))
    return batch.records(1 << 20)


def found(*values: bytes | None, of_key: bool = False, skip: int = 0, most: int = 100) -> list[tuple[int, bytes]]:
    batch = records(*values, of_key=of_key)
    invalid = find_not_avro(batch, of_key, skip, INT, 128, most)
    return [(index, batch.payload[start:end]) for index, start, end in invalid]


def test_the_records_that_are_no_values_are_found_with_their_bytes() -> None:
    values = [b"\2", b"", None, b"\2\2", b"\x80\1"]
    assert found(*values) == [(1, b""), (3, b"\2\2")]
    assert found(*values, of_key=True) == [(1, b""), (3, b"\2\2")]


def test_bytes_before_the_value_are_stepped_over_and_those_that_lack_are_found() -> None:
    assert found(b"\0\0\0\0\7\2", b"\0\0\0\0", b"\0\0\0\0\7", skip=5) == [(1, b"\0\0\0\0"), (2, b"\0\0\0\0\7")]


def test_no_more_are_found_than_asked_for() -> None:
    assert [index for index, _ in found(*[b""] * 5, most=2)] == [0, 1]


@pytest.mark.bulk
def test_a_long_batch_is_walked_to_its_end() -> None:
    assert [index for index, _ in found(*[b"\2"] * 20_000, b"")] == [20_000]
