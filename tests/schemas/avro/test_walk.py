"""The bytes of Avro values, against fastavro: what it writes is accepted, what is accepted it can read."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.avro_values import ORDER, written_values
from support.examples import for_each

from kafka_sidecar.schemas.avro.schema import AvroSchema

SCHEMA = AvroSchema.parse(json.dumps(ORDER))


def fault_of(schema: AvroSchema, data: bytes, max_depth: int = 128) -> str | None:
    found = schema.fault_of(data, 0, len(data), max_depth)
    return None if found is None else str(found)


@given(written_values())
def test_what_fastavro_writes_is_accepted_and_every_part_of_it_is_not(example: tuple[Any, bytes]) -> None:
    declared, data = example
    schema = AvroSchema.parse(json.dumps(declared))
    assert fault_of(schema, data) is None
    for end in range(len(data)):
        assert fault_of(schema, data[:end]) is not None
    assert fault_of(schema, data + b"\0") is not None


@given(written_values(), st.data())
def test_what_is_accepted_fastavro_can_read_to_the_end(example: tuple[Any, bytes], change: st.DataObject) -> None:
    declared, data = example
    if not data:
        return
    at = change.draw(st.integers(0, len(data) - 1))
    changed = data[:at] + bytes([change.draw(st.integers(0, 255))]) + data[at + 1 :]
    if fault_of(AvroSchema.parse(json.dumps(declared)), changed) is None:
        stream = io.BytesIO(changed)
        fastavro.schemaless_reader(stream, fastavro.parse_schema(declared), None)
        assert stream.tell() == len(changed)


@given(st.binary(max_size=60))
def test_any_bytes_are_accepted_or_have_a_fault(data: bytes) -> None:
    found = SCHEMA.fault_of(data, 0, len(data))
    assert found is None or 0 <= found.at <= len(data)


FAULTS = [
    (b"", "$.id: ends too early at byte 0"),
    (b"\x80" * 10 + b"\x01", "$.id: a number of too many bits at byte 0"),
    (b"\x0e\x03", "$.paid: a boolean that is neither 0 nor 1 at byte 1"),
    (b"\x0e\x01\x04", "$.state: a symbol that the enum does not have at byte 2"),
    (b"\x0e\x01\x00123", "$.digest: ends too early at byte 6"),
    (b"\x0e\x01\x001234\x02\x01", "$.notes{}: a negative length at byte 8"),
    (b"\x0e\x01\x001234\x02\x02k\x04", "$.notes{}: a branch that the union does not have at byte 11"),
    (b"\x0e\x01\x001234\x00\x04\x02\xff", "$.items[0].sku: text that is not UTF-8 at byte 10"),
    (b"\x0e\x01\x001234\x00\x02\x00\x80\x80\x80\x80\x10", "$.items[0].count: a number of too many bits at byte 10"),
]


@for_each(FAULTS)
def test_a_fault_names_its_path_rule_and_position(example: tuple[bytes, str]) -> None:
    data, fault = example
    assert fault_of(SCHEMA, data) == fault


def test_blocks_may_have_their_sizes_and_there_may_be_several() -> None:
    schema = AvroSchema.parse('{"type": "array", "items": "int"}')
    assert fault_of(schema, b"\x03\x04\x02\x04\x02\x06\x00") is None  # -2 items of 2 bytes, then 1 item
    stream = io.BytesIO(b"\x03\x04\x02\x04\x02\x06\x00")
    assert fastavro.schemaless_reader(stream, {"type": "array", "items": "int"}, None) == [1, 2, 3]


@pytest.mark.bulk
def test_values_that_end_other_readers_have_a_fault() -> None:
    nested = AvroSchema.parse('{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}')
    assert (fault_of(nested, b"\x02" * 5000) or "").endswith("nested too deeply at byte 128")
    assert fault_of(nested, b"\x02" * 511 + b"\x00", 512) is None
    nulls = AvroSchema.parse('{"type": "array", "items": "null"}')
    assert (fault_of(nulls, b"\x80\xa8\xd6\xb9\x07\x00") or "").startswith("$[")  # 1e9 nulls
    assert fault_of(nulls, b"\x80\x80\x08\x00") is None  # 65,536 of them
    lowest = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # -2^63 items
    assert fault_of(nulls, lowest + b"\x00\x00") == "$: a negative length at byte 0"
