"""Texts that are Avro schemas, and those that are not."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import SchemaParseException, UnknownType
from hypothesis import given
from support.avro_values import ORDER, schemas
from support.examples import for_each

from kafka_sidecar.schemas.avro.schema import MAX_TEXT, AvroSchema, AvroSchemaError

A = {"type": "record", "name": "A", "fields": []}


def test_a_schema_has_the_full_name_of_its_type() -> None:
    assert AvroSchema.parse(json.dumps(ORDER)).name == "shop.Order"
    assert AvroSchema.parse('"string"').name == "string"
    assert AvroSchema.parse('["null", "int"]').name == "union"
    assert AvroSchema.parse('{"type": "record", "name": "a.b.R", "namespace": "c", "fields": []}').name == "a.b.R"


@given(schemas())
def test_every_schema_of_fastavro_is_one(example: tuple[Any, Any]) -> None:
    AvroSchema.parse(json.dumps(example[0]))


REJECTED: list[tuple[str, str]] = [
    ("{", "is not JSON"),
    ("1", "$: is neither a name, a list nor an object"),
    ('"nope"', "$: 'nope' is not a type"),
    ('["int", "int"]', "$: a union has a type twice"),
    ('["int", ["null"]]', "$: a union is directly in a union"),
    ('{"type": "array"}', "$: has no items"),
    ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "$: has a symbol twice"),
    ('{"type": "enum", "name": "E", "symbols": "A"}', "$: symbols must be a list of names"),
    ('{"type": "fixed", "name": "F", "size": -1}', "$: size must be a number of bytes"),
    ('{"type": "record", "fields": []}', "$: has no name"),
    ('{"type": "record", "name": "a b", "fields": []}', "$: 'a b' is not a name"),
    ('{"type": "record", "name": "R", "fields": [{"name": "f"}]}', "$: field 0 has no type"),
    (json.dumps({**A, "fields": [{"name": "f", "type": "int"}] * 2}), "$: has the field 'f' twice"),
    (json.dumps({**A, "fields": [{"name": "f", "type": A}]}), "$.f: 'A' is declared twice"),
    (json.dumps({**A, "fields": [{"name": "f", "type": "A"}]}), "$: contains itself without"),
    ("[" * 99_999, "is nested deeper than"),
    ("[" * 150 + '"int"' + "]" * 150, "is nested deeper than"),
    (" " * (MAX_TEXT + 1), "has 1048577 characters"),
    (json.dumps([{"type": "array", "items": {"type": "map", "values": "int"}}] * 6000), "more than 10000 types"),
]


@for_each(REJECTED)
def test_what_is_no_schema_is_refused_with_its_place(example: tuple[str, str]) -> None:
    text, message = example
    with pytest.raises(AvroSchemaError) as error:
        AvroSchema.parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_references_are_found_in_any_order() -> None:
    b = '{"type": "record", "name": "n.B", "fields": [{"name": "a", "type": "n.A"}]}'
    a = '{"type": "record", "name": "n.A", "fields": [{"name": "i", "type": "int"}]}'
    root = '{"type": "record", "name": "n.R", "fields": [{"name": "b", "type": "B"}, {"name": "a", "type": "A"}]}'
    for references in ({"a": a, "b": b}, {"b": b, "a": a}):
        schema = AvroSchema.parse(root, references)
        assert schema.find_fault(b"\x02\x04", 0, 2) is None
        assert str(schema.fault_of(b"\x02", 0, 1)) == "$.a.i: ends too early at byte 1"
    with pytest.raises(AvroSchemaError, match=r"^b: \$.a: 'n.A' is not a type"):
        AvroSchema.parse(root, {"b": b})


def test_names_are_looked_up_as_fastavro_does() -> None:
    inner = {"type": "record", "name": "I", "namespace": "x", "fields": [{"name": "s", "type": ["null", "O"]}]}
    outer = {"type": "record", "name": "O", "namespace": "y", "fields": [{"name": "i", "type": inner}]}
    with pytest.raises((UnknownType, SchemaParseException)):
        fastavro.parse_schema(outer)
    with pytest.raises(AvroSchemaError, match="'O' is not a type"):
        AvroSchema.parse(json.dumps(outer))
