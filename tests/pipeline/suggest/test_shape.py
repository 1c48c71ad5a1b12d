"""Shapes of documents: no order matters, also where limits are reached, and memory is bounded."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_sidecar.pipeline.suggest.shape import CAPS, MAX_DEPTH, MAX_NAME, Document, Shape
from pipeline.suggest.documents import DOCUMENTS, JSON


def document(values: list[Any], max_places: int = 100_000) -> Document:
    found = Document(max_places=max_places)
    for one in values:
        found.add(one)
    found.settle()
    return found


@given(st.lists(DOCUMENTS, max_size=12), st.lists(DOCUMENTS, max_size=12), st.lists(DOCUMENTS, max_size=12),
       st.sampled_from([1, 8, 30, 200, 100_000]))  # fmt: skip
def test_documents_merge_in_any_order_whatever_the_limit(
    one: list[Any], two: list[Any], three: list[Any], max_places: int
) -> None:
    whole = document(one + two + three, max_places)
    for a, b, c in ((one, two, three), (three, one, two), (two, three, one)):
        left, right, other = (document(values, max_places) for values in (a, b, a))
        left.merge(document(b, max_places))
        left.merge(document(c, max_places))
        right.merge(document(c, max_places))
        other.merge(right)
        assert left == other == whole


@given(st.lists(JSON, max_size=20), st.integers(1, 5))
def test_it_does_not_matter_how_often_limits_are_looked_at(values: list[Any], often: int) -> None:
    found = Document(max_places=40)
    for number, one in enumerate(values):
        found.add(one)
        if not number % often:
            found.settle()
    found.settle()
    assert found == document(values, 40)


def wide(names: int, inner: int = 0) -> dict[str, Any]:
    return {f"n{one}": {f"i{two}": 1 for two in range(inner)} if inner else 1 for one in range(names)}


def test_an_object_with_too_many_names_is_a_map() -> None:
    objects = document([wide(CAPS[0])]).shape.objects
    assert objects is not None
    assert objects.names is not None
    objects = document([wide(CAPS[0] + 1)]).shape.objects
    assert objects is not None
    assert objects.names is None
    assert objects.values is not None
    assert objects.values.counts == {"integer": CAPS[0] + 1}
    objects = document([{"x" * (MAX_NAME + 1): 1}]).shape.objects
    assert objects is not None
    assert objects.names is None


def test_a_million_names_take_the_room_of_one() -> None:
    found = document([{f"{batch}-{n}": {"a": n} for n in range(2000)} for batch in range(500)])
    assert found.shape.places(1) == 3
    assert len(orjson.dumps(repr(found))) < 10_000


def test_too_many_places_lower_the_limit_of_names_and_in_the_end_nothing_is_looked_into() -> None:
    assert document([wide(200, 200)], 1000).cap == 16
    lowest = document([wide(200, 200)], 2)
    assert lowest.cap == 0
    assert lowest.shape.objects is not None
    assert lowest.shape.objects.is_opaque
    assert lowest.shape.counts == {"object": 1}


@example(MAX_DEPTH + 5)
@given(st.integers(1, 900))
def test_what_is_nested_deep_is_not_looked_into(depth: int) -> None:
    for text in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        found = document([orjson.loads(text)])
        assert found.shape.places(CAPS[0]) <= MAX_DEPTH + 2
        assert found == document([]) or found.shape.count == 1


@pytest.mark.parametrize("value", [None, True, 7, 0.5, "a", [], {}])
def test_types_are_counted_by_the_names_of_json_schema(value: Any) -> None:
    shape = Shape()
    for _ in range(3):
        shape.add(value)
    names = {"NoneType": "null", "bool": "boolean", "int": "integer", "float": "number", "str": "string",
             "list": "array", "dict": "object"}  # fmt: skip
    assert shape.counts == {names[type(value).__name__]: 3}
    assert deepcopy(shape) == shape


def test_a_limit_that_a_part_has_reached_is_reached_by_the_whole() -> None:
    """A map has fewer places than the objects that it was made of; what counts them must not shrink."""
    parts = [{f"n{at}{one}": {f"i{two}": 1 for two in range(6)} for one in range(16)} for at in range(2)]
    first, second, whole = (Document(cap=16, max_places=100) for _ in range(3))
    for document, values in ((first, parts[:1]), (second, parts[1:]), (whole, parts)):
        for value in values:
            document.add(value)
        document.settle()
    first.merge(second)
    assert first == whole
