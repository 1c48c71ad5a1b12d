"""Avro values as objects, compared with what fastavro reads of the same bytes."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.avro_values import ORDER, VALUE, longs, schemas, written
from support.examples import for_each

from kafka_sidecar.schemas.avro.schema import AvroSchema


def decoded(declared: Any, data: bytes, max_depth: int = 128) -> Any:
    return AvroSchema.parse(json.dumps(declared)).decode(data, 0, len(data), max_depth)


def read(declared: Any, data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(declared), None)


@given(st.data())
def test_values_are_those_that_fastavro_reads(draw: st.DataObject) -> None:
    declared, values = draw.draw(schemas())
    data = written(declared, draw.draw(values))
    assert decoded(declared, data) == read(declared, data)
    assert decoded(declared, data) == decoded({"type": declared} if isinstance(declared, str) else declared, data)


def in_cel(value: Any) -> Any:
    """What fastavro returns, in the types that conditions know."""
    match value:
        case Decimal():
            return float(value)
        case UUID():
            return str(value)
        case datetime():
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case time():
            return timedelta(
                hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
            )
    return value


DAY = 86_400
LOGICAL: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.dates().map(lambda day: (day - date(1970, 1, 1)).days)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(0, DAY * 1000 - 1)),
    ({"type": "long", "logicalType": "time-micros"}, st.integers(0, DAY * 10**6 - 1)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(10**13), 10**14)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(-(10**16), 10**17)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, st.integers(-(10**13), 10**14)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, st.integers(-(10**16), 10**17)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}, st.binary(min_size=1, max_size=8)),
    (
        {"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 11, "scale": 2},
        st.integers(1 - 10**11, 10**11 - 1).map(lambda number: number.to_bytes(5, signed=True)),
    ),
]


@given(st.sampled_from(LOGICAL), st.data())
def test_logical_types_are_those_that_fastavro_reads(
    example: tuple[dict[str, Any], st.SearchStrategy[Any]], draw: st.DataObject
) -> None:
    declared, plain = example
    underlying = {name: value for name, value in declared.items() if name != "logicalType"}
    data = written(underlying, draw.draw(plain))
    assert decoded(declared, data) == in_cel(read(declared, data))
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": ["null", declared]}]}
    assert decoded(record, b"\x02" + data) == {"f": in_cel(read(declared, data))}


NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
BY_HAND = [
    (NANOS, written("long", 1_500), datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
    (
        {**NANOS, "logicalType": "local-timestamp-nanos"},
        written("long", -1),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(16), str(UUID(int=0))),
    # not valid for the type, so none, as the specification has it
    ({"type": "string", "logicalType": "date"}, b"\x02a", "a"),
    ({"type": "long", "logicalType": "fortnight"}, b"\x02", 1),
    ({"type": "long", "logicalType": 7}, b"\x02", 1),
    ({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 10**9}, b"\x02\x01", b"\x01"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 1}, b"\x02\x01", b"\x01"),
    ({"type": "bytes", "logicalType": "decimal"}, b"\x02\x01", b"\x01"),
    ({"type": "fixed", "name": "U", "size": 4, "logicalType": "uuid"}, b"abcd", b"abcd"),
    ({"type": "fixed", "name": "U", "size": 4, "logicalType": "decimal", "precision": 10}, b"abcd", b"abcd"),
    # an object for the value of a decimal that is no float
    ({"type": "bytes", "logicalType": "decimal", "precision": 9}, written("bytes", b"\x7f" * 2000), math.inf),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9}, written("bytes", b"\x80" * 2000), -math.inf),
]  # fmt: skip


@for_each(BY_HAND)
def test_what_fastavro_reads_otherwise(example: tuple[Any, bytes, Any]) -> None:
    declared, data, value = example
    assert decoded(declared, data) == value


@given(longs, st.sampled_from(["timestamp-millis", "timestamp-micros", "timestamp-nanos", "time-micros"]))
def test_a_number_that_no_datetime_holds_stays_a_number(number: int, logical: str) -> None:
    value = decoded({"type": "long", "logicalType": logical}, written("long", number))
    assert isinstance(value, datetime | timedelta) or value == number


def test_what_is_not_of_the_schema_is_said_with_its_path() -> None:
    with pytest.raises(ValueError, match=r"^\$.paid: a boolean that is neither 0 nor 1 at byte 1$"):
        decoded(ORDER, b"\x0e\x03")
    assert decoded(ORDER, written(ORDER, VALUE)) == VALUE


def test_a_deep_value_is_read_and_a_deeper_one_is_not() -> None:
    nested = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    value = decoded(nested, b"\x02" * 511 + b"\x00", 512)
    for _ in range(511):
        value = value["r"]
    assert value == {"r": None}
    with pytest.raises(ValueError, match="nested too deeply"):
        decoded(nested, b"\x02" * 512 + b"\x00", 512)


@pytest.mark.bulk
def test_elements_that_take_no_bytes_are_limited() -> None:
    nulls = {"type": "array", "items": "null"}
    assert decoded(nulls, written("long", 100_000) + b"\0") == [None] * 100_000
    with pytest.raises(ValueError, match="too many elements that take no bytes"):
        decoded(nulls, (written("long", 60_000) * 2) + b"\0")


def test_a_union_has_a_type_once_whatever_its_logical_type() -> None:
    with pytest.raises(ValueError, match="a union has a type twice"):
        AvroSchema.parse('["long", {"type": "long", "logicalType": "timestamp-millis"}]')
    AvroSchema.parse('["long", {"type": "int", "logicalType": "date"}]')
