"""Masked Avro values: as fastavro reads them, only the named fields differ, and all other bytes are the same."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.avro_values import ITEM, ORDER, VALUE, schemas, written
from support.examples import for_each

from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.json_paths import JsonPaths
from kafka_sidecar.schemas.masks import Mask

Steps = Sequence[tuple[str | int | None, bool]]  # as in JsonPaths: a member, an element or any; at any depth


def masked(declared: Any, data: bytes, *paths: str, mask: Mask | None = None) -> bytes:
    schema = AvroSchema.parse(json.dumps(declared))
    return schema.replace_fields(data, 0, len(data), JsonPaths(paths), mask or Mask())


def read(declared: Any, data: bytes) -> Any:
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(declared), None)
    assert stream.tell() == len(data)
    return value


def path_of(steps: Steps) -> str:
    return "$" + "".join(
        (".." if deep else "") + ("[*]" if to is None else f"[{json.dumps(to)}]") for to, deep in steps
    )


class CannotBeMasked(Exception):  # noqa: N818
    pass


def replacement(declared: Any, value: Any) -> Any:
    kind = declared if isinstance(declared, str) else declared["type"]
    simple = {"boolean": False, "int": 0, "long": 0, "float": 0.0, "double": 0.0, "bytes": b"***", "string": "***"}
    match kind:
        case "enum":
            return declared["symbols"][0]
        case "fixed":
            return bytes(declared["size"])
        case _ if kind in simple:
            return simple[kind]
    raise CannotBeMasked


def model(declared: Any, value: Any, paths: Sequence[Steps]) -> Any:
    """The value with its fields masked, by recursion over the objects."""
    if isinstance(declared, list):  # of null and another one
        declared = "null" if value is None else next(one for one in declared if one != "null")
    if value is None:
        return None
    if any(not steps for steps in paths):
        return replacement(declared, value)

    def after(member: str | int) -> list[Steps]:
        taken = [steps[1:] for steps in paths if steps[0][0] in (None, member) and type(steps[0][0]) is not bool]
        return taken + [steps for steps in paths if steps[0][1]]

    kind = declared if isinstance(declared, str) else declared["type"]
    if kind == "record":
        fields = {field["name"]: field["type"] for field in declared["fields"]}
        return {name: model(fields[name], one, after(name)) for name, one in value.items()}
    if kind == "map":
        return {name: model(declared["values"], one, after(name)) for name, one in value.items()}
    if kind == "array":
        return [model(declared["items"], one, after(index)) for index, one in enumerate(value)]
    return value


a_step = st.tuples(st.sampled_from(["f0", "f1", "f2", "a", 0, 1, None]), st.booleans())


@given(st.data())
def test_only_the_named_fields_of_random_values_differ(draw: st.DataObject) -> None:
    declared, values = draw.draw(schemas())
    data = written(declared, draw.draw(values))
    paths = draw.draw(st.lists(st.lists(a_step, min_size=1, max_size=3), min_size=1, max_size=3))
    texts = [path_of(steps) for steps in paths]
    try:
        expected = model(declared, read(declared, data), paths)
    except CannotBeMasked:
        with pytest.raises(ValueError, match="cannot be masked"):
            masked(declared, data, *texts)
        schema = AvroSchema.parse(json.dumps(declared))
        assert schema.find_unmaskable(JsonPaths(texts), Mask()) != []
    else:
        assert masked(declared, data, *texts) == written(declared, expected)


def test_fields_of_every_type_are_masked_by_their_own_type() -> None:
    data = written(ORDER, VALUE)
    paths = ["$.id", "$.paid", "$.state", "$.digest", "$.notes.*", "$..sku", "$.items[*]..count", "$.items[1].price"]
    masked_item = {**ITEM, "sku": "***", "count": 0}
    assert read(ORDER, masked(ORDER, data, *paths)) == {
        "id": 0,
        "paid": False,
        "state": "NEW",
        "digest": bytes(4),
        "notes": {"k": None, "l": "***"},
        "items": [masked_item, {**masked_item, "price": 0.0, "part_of": masked_item}],
    }


NULLABLE = {"type": "record", "name": "R", "fields": [{"name": "f", "type": ["string", "null", "int"]}]}


MASKS = [
    (Mask("gone"), "abc", "gone"),
    (Mask(None), "abc", None),
    (Mask(None), 7, None),
    (Mask(number=5), 7, 5),
    (Mask("x", -9), None, None),
    (Mask("***", 0, 2), "ab\u00e9d", "***\u00e9d"),
    (Mask("***", 0, 2), "abc", "***"),
]


@for_each(MASKS)
def test_masks_are_texts_numbers_null_or_the_end_of_a_text(example: tuple[Mask, Any, Any]) -> None:
    mask, value, expected = example
    data = masked(NULLABLE, written(NULLABLE, {"f": value}), "$.f", mask=mask)
    assert data == written(NULLABLE, {"f": expected})


def test_the_sizes_of_blocks_are_corrected_and_only_they() -> None:
    # two blocks of maps: -1 element of 10 bytes, in it -1 element of 7 bytes; then 1 element
    declared = {"type": "array", "items": {"type": "map", "values": "string"}}
    inner = b"\x01\x0e" + b"\x02k\x08abcd" + b"\x00"
    data = b"\x01\x14" + inner + b"\x02" + b"\x02\x02k\x02e\x00" + b"\x00"
    assert read(declared, data) == [{"k": "abcd"}, {"k": "e"}]
    after = b"\x01\x0c" + b"\x02k\x06***" + b"\x00"
    expected = b"\x01\x12" + after + b"\x02" + b"\x02\x02k\x06***\x00" + b"\x00"
    assert masked(declared, data, "$[*].k") == expected
    assert masked(declared, data, "$[*].other") == data
    long = masked(declared, data, "$[0].k", mask=Mask("*" * 100))  # the sizes take more bytes, too
    assert read(declared, long) == [{"k": "*" * 100}, {"k": "e"}]


LOGICAL = [
    (
        {"type": "string", "logicalType": "uuid"},
        written("string", "x" * 36),
        written("string", str(UUID(int=0))),
    ),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\x04\x01\x01", b"\x04\x02\xbc"),
    (
        {"type": "fixed", "name": "D", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2},
        b"abc",
        b"\0\x02\xbc",
    ),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B"}, b"\x00", b"\x02"),
]  # fmt: skip


@for_each(LOGICAL)
def test_logical_types_and_defaults_of_enums_are_kept(example: tuple[Any, bytes, bytes]) -> None:
    declared, data, expected = example
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": declared}]}
    assert masked(record, data, "$.f", mask=Mask(number=7)) == expected


UNMASKABLE = [
    ("$.items", Mask(), ["$.items: an array cannot be masked"]),
    ("$.notes", Mask(), ["$.notes: a map cannot be masked"]),
    ("$.items[*]", Mask(), ["$.items[*]: a record cannot be masked"]),
    ("$.items[0].part_of", Mask(), ["$.items[0].part_of: a record cannot be masked"]),
    ("$.items[0].part_of", Mask(None), []),
    ("$.notes.*", Mask(None), []),
    ("$.id", Mask(None), ["$.id: cannot be null"]),
    ("$.id", Mask(number=0.5), ["$.id: 0.5 is not a whole number of 64 bits"]),
    ("$.items[*].count", Mask(number=1 << 31), ["$.items[*].count: 2147483648 is not a whole number of 32 bits"]),
    ("$.items[*].price", Mask(number=0.5), []),
    ("$..part_of.sku", Mask(), []),
    ("$.nowhere", Mask(), []),
    ("$.id.nothing", Mask(), []),
]


@for_each(UNMASKABLE)
def test_what_cannot_be_masked_is_said_in_advance(example: tuple[str, Mask, list[str]]) -> None:
    path, mask, found = example
    assert AvroSchema.parse(json.dumps(ORDER)).find_unmaskable(JsonPaths([path]), mask) == found


def test_a_value_that_is_not_of_the_schema_is_not_masked() -> None:
    with pytest.raises(ValueError, match=r"\$.id: ends too early"):
        masked(ORDER, b"", "$.id")


def test_a_deep_value_is_masked() -> None:
    fields = [{"name": "s", "type": "string"}, {"name": "r", "type": ["null", "R"]}]
    nested = {"type": "record", "name": "R", "fields": fields}
    data = b"\x02a\x02" * 511 + b"\x02a\x00"
    assert masked(nested, data, "$..s") == b"\x06***\x02" * 511 + b"\x06***\x00"
