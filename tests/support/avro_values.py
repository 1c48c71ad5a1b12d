"""Avro schemas and values: one of each kind of type, and any; written by fastavro."""

from __future__ import annotations

import io
from typing import Any

import fastavro
from hypothesis import strategies as st

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 4}},
        {"name": "notes", "type": {"type": "map", "values": ["null", "string"]}},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "sku", "type": "string"},
                        {"name": "count", "type": "int"},
                        {"name": "price", "type": "double"},
                        {"name": "part_of", "type": ["null", "Item"]},
                    ],
                },
            },
        },
    ],
}
ITEM = {"sku": "a", "count": 1, "price": 1.5, "part_of": None}
VALUE = {
    "id": 7,
    "paid": True,
    "state": "SENT",
    "digest": b"1234",
    "notes": {"k": None, "l": "\u00e9"},
    "items": [ITEM, {**ITEM, "part_of": ITEM}],
}


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


ints, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", ints),
    ("long", longs),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=20)),
    ("string", st.text(max_size=20)),
]


@st.composite
def schemas(draw: st.DrawFn, names: Any = None, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and its values."""
    names = names if names is not None else iter(range(1000))
    kind = draw(st.sampled_from(["leaf", "leaf", "enum", "fixed", "array", "map", "record", "optional"]))
    if kind == "leaf" or depth == 0:
        leaf: tuple[Any, st.SearchStrategy[Any]] = draw(st.sampled_from(LEAVES))
        return leaf
    name = f"T{next(names)}"
    if kind == "enum":
        symbols = [f"S{number}" for number in range(draw(st.integers(1, 5)))]
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(1, 9))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "record":
        parts = [draw(schemas(names, depth - 1)) for _ in range(draw(st.integers(0, 4)))]
        fields = [{"name": f"f{number}", "type": schema} for number, (schema, _) in enumerate(parts)]
        values = {f"f{number}": value for number, (_, value) in enumerate(parts)}
        return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(values)
    inner, value = draw(schemas(names, depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(value, max_size=4)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), value, max_size=4)
    if inner == "null" or isinstance(inner, list):
        return inner, value
    return ["null", inner], st.none() | value


@st.composite
def written_values(draw: st.DrawFn) -> tuple[Any, bytes]:
    schema, values = draw(schemas())
    return schema, written(schema, draw(values))
