"""The schema of a shape: what was seen is accepted, by two implementations; and it says what is common."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import jsonschema
import jsonschema_rs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.pipeline.suggest.json_schema import DIALECT, Options, fields_of, limits_of, schema_of
from kafka_sidecar.pipeline.suggest.shape import CAPS, Document
from kafka_sidecar.schemas.json_schema import JsonSchema
from pipeline.suggest.documents import DOCUMENTS


def document(values: list[Any], max_places: int = 100_000) -> Document:
    found = Document(max_places=max_places)
    for one in values:
        found.add(orjson.loads(orjson.dumps(one)))
    found.settle()
    return found


@given(
    st.lists(DOCUMENTS, min_size=1, max_size=30), st.booleans(), st.booleans(), st.sampled_from([1, 5, 100]),
    st.sampled_from([20, 100_000]),
)  # fmt: skip
def test_every_value_that_was_seen_is_accepted(
    values: list[Any], is_closed: bool, with_ranges: bool, evidence: int, max_places: int
) -> None:
    repeated = values * 3
    schema = schema_of(document(repeated, max_places).shape, Options(0, is_closed, with_ranges, evidence))
    jsonschema.Draft202012Validator.check_schema(schema)
    ours = JsonSchema(json.dumps({"$schema": DIALECT} | schema))
    theirs, pure = jsonschema_rs.validator_for(schema), jsonschema.Draft202012Validator(schema)
    for value in values:
        text = orjson.dumps(value)
        assert theirs.is_valid(orjson.loads(text))
        assert pure.is_valid(orjson.loads(text))
        assert ours.fault_of(text) is None
    list(fields_of(schema, document(repeated, max_places).shape))


@given(st.lists(DOCUMENTS, min_size=1, max_size=30), st.floats(0, 0.2))
def test_the_schema_does_not_depend_on_the_order(values: list[Any], tolerance: float) -> None:
    options = Options(tolerance, True, True, 3)
    shuffled = list(values)
    Random(1).shuffle(shuffled)
    assert schema_of(document(values).shape, options) == schema_of(document(shuffled).shape, options)


def of(values: list[Any], **more: Any) -> dict[str, Any]:
    return schema_of(document(values).shape, Options(**more))


def test_fields_that_are_always_there_are_required_and_null_is_a_type() -> None:
    values = [{"a": 1, "b": None if n % 2 else "x y", **({"c": True} if n % 3 else {})} for n in range(60)]
    assert of(values) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {"type": "boolean"}},
        "required": ["a", "b"],
    }
    assert of(values, is_closed=True)["additionalProperties"] is False


def test_with_a_tolerance_what_is_rare_is_not_said() -> None:
    values: list[Any] = [{"n": n % 100, "s": ("NEW", "PAID")[n % 2]} for n in range(5000)]
    odd = [{"n": "seven", "s": "NEW"}, {"n": 10**12, "s": "typo"}, {"s": "PAID", "x": 1}]
    expected = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "maximum": 99},
            "s": {"type": "string", "enum": ["NEW", "PAID"]},
        },
        "required": ["n", "s"],
        "additionalProperties": False,
    }
    assert of(values + odd, tolerance=0.001, is_closed=True) == expected
    assert of(values, is_closed=True) == expected
    assert of(values + odd, is_closed=True) != expected


@pytest.mark.parametrize(
    ("numbers", "schema"),
    [
        ([200, 404, 500], {"type": "integer", "enum": [200, 404, 500]}),
        ([1, 2, 3, 4, 5], {"type": "integer", "minimum": 1, "maximum": 5}),
        ([1, 2.5], {"type": "number", "minimum": 1, "maximum": 2.5}),
        ([200, 404, None], {"type": ["integer", "null"], "enum": [200, 404, None]}),
        (
            [1_760_000_000_000, 1_760_000_500_000],
            {"type": "integer", "enum": [1_760_000_000_000, 1_760_000_500_000]},
        ),
    ],
)
def test_numbers_have_few_values_or_a_range(numbers: list[Any], schema: dict[str, Any]) -> None:
    assert of(numbers * 200) == schema


@pytest.mark.parametrize(("scale", "unit"), [(1, "s"), (10**3, "ms"), (10**6, "us"), (10**9, "ns")])
def test_times_that_grow_have_no_newest_one_as_their_limit(scale: int, unit: str) -> None:
    found = of([(1_760_000_000 + n) * scale for n in range(1000)])
    assert found["description"] == f"a time in {unit} since 1970"
    assert found["maximum"] == 4_102_444_800 * scale


def test_only_null_and_only_empty_arrays_say_nothing_about_others() -> None:
    assert of([{"a": None, "b": []}] * 200) == {
        "type": "object", "properties": {"a": {}, "b": {"type": "array"}}, "required": ["a", "b"],
    }  # fmt: skip


def test_maps_are_found_by_their_number_of_names_and_by_their_look() -> None:
    many = [{f"user {n} {m}": n for m in range(3)} for n in range(1000)]
    ids = [{f"00000000-0000-4000-8000-{n % 20:012}": "a b"} for n in range(200)]
    rare = [{f"w{n % 40}x": 0.5} for n in range(400)]
    assert of(many)["additionalProperties"] == {"type": "integer", "minimum": 0, "maximum": 999}
    assert "properties" not in of(many)
    assert of(ids)["propertyNames"]["pattern"].startswith("^[0-9a-fA-F]{8}-")
    assert of(ids)["additionalProperties"]["type"] == "string"
    assert of(rare)["propertyNames"] == {"pattern": "^w[0-9]+x$"}
    usual = [{f"field{n}": 1 for n in range(40)}] * 200
    assert len(of(usual)["properties"]) == 40


def test_fields_are_listed_with_their_counts() -> None:
    values = [{"a": [{"b": n}], **({"c": "x"} if n % 2 else {})} for n in range(200)]
    found = document(values)
    lines = [(one.path, one.count, one.of) for one in fields_of(schema_of(found.shape, Options()), found.shape)]
    assert lines == [("$", 200, 200), ("$.a", 200, 200), ("$.a[]", 200, 200), ("$.a[].b", 200, 200), ("$.c", 100, 200)]


def test_limits_that_were_reached_are_said() -> None:
    assert list(limits_of(document([{"a": 1}]).shape, CAPS[0])) == []
    deep: Any = 1
    for _ in range(40):
        deep = {"a": deep}
    assert ["nested too deep" in one for one in limits_of(document([deep]).shape, CAPS[0])] == [True]
    low = document([{f"a{n}": {f"b{m}": 1 for m in range(50)} for n in range(50)}], 500)
    assert "more than 16 names count as maps" in next(iter(limits_of(low.shape, low.cap)))
