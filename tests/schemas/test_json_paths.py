"""The spans that JSONPath expressions select, compared with the values of a JSON parser."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.checkpoint import Stop, StoppedError, stoppable
from kafka_sidecar.schemas import json_paths
from kafka_sidecar.schemas.json_paths import JsonPaths, NotReadableError

NAMES = ("a", "b", 'q"', "ü", "a b")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)
a_step = st.sampled_from([*NAMES, 0, 1, None])  # None: any
some_steps = st.lists(st.tuples(a_step, st.booleans()), min_size=1, max_size=4)


def written(steps: list[tuple[str | int | None, bool]]) -> str:
    return "$" + "".join(
        (".." if deep else "") + ("[*]" if to is None else f"[{json.dumps(to, ensure_ascii=False)}]")
        for to, deep in steps
        if not (deep and to is None)
    )


def chosen(value: Any, steps: list[tuple[str | int | None, bool]]) -> list[Any]:
    """What RFC 9535 selects, step by step."""
    if not steps:
        return [value]
    (to, deep), *others = steps
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    found = [one for name, child in inside if to in (None, name) for one in chosen(child, others)]
    return found + [one for _, child in inside if deep for one in chosen(child, steps)]


def found(path: str | list[str], text: str | bytes) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode()
    paths = [path] if isinstance(path, str) else path
    return [data[start:end].decode() for start, end in JsonPaths(paths).spans(data)]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$.a", ["1"]),
        ("$['a']", ["1"]),
        ('$["a"]', ["1"]),
        ("$.b.c", ['"x, ]}"']),
        ("$.b['c']", ['"x, ]}"']),
        ("$.l[0]", ['{"a": -2.50E+3}']),
        ("$.l[1]", ["[ 3 , 4 ]"]),
        ("$.l[1][1]", ["4"]),
        ("$.l[*]", ['{"a": -2.50E+3}', "[ 3 , 4 ]", "null"]),
        ("$.l.*", ['{"a": -2.50E+3}', "[ 3 , 4 ]", "null"]),
        ("$.l[*].a", ["-2.50E+3"]),
        ("$..a", ["1", "-2.50E+3"]),
        ("$..['a']", ["1", "-2.50E+3"]),
        ("$..[1]", ["[ 3 , 4 ]"]),
        ("$.b", ['{"c": "x, ]}"}']),
        ("$['it\\'s']", ["true"]),
        ("$['0']", ["[]"]),
        ("$[0]", []),
        ("$.l['0']", []),
        ("$.A", []),
        ("$.a.b", []),
        ("$.l[7]", []),
    ],
)
def test_a_path_selects_spans_of_the_text(path: str, values: list[str]) -> None:
    text = """ {"a":1 , "b" : {"c": "x, ]}"}, "l": [{"a": -2.50E+3}, [ 3 , 4 ], null], "it's": true, "0": []}\n"""
    assert found(path, text) == values


def test_of_nested_matches_only_the_outer_one_is_selected() -> None:
    assert found(["$..a", "$.b"], '{"b": {"a": 1}, "a": {"a": 2}}') == ['{"a": 1}', '{"a": 2}']


def test_all_members_with_a_duplicate_name_are_selected() -> None:
    assert found("$.a.b", '{"a": {"b": 1, "b": 2}, "a": 3, "a": {"b": 4}}') == ["1", "2", "4"]


def test_an_escaped_member_name_is_matched() -> None:
    assert found("$['ü\"']", r'{"\u00fc\"": 1, "ü\"": 2, "\u00FC\u0022": 3, "u": 4}') == ["1", "2", "3"]


@given(json_values, some_steps, st.sampled_from([None, 1]), st.booleans())
def test_the_selection_agrees_with_rfc_9535(
    value: Any, steps: list[tuple[str | int | None, bool]], indent: int | None, ascii_only: bool
) -> None:
    if not isinstance(value, dict | list):
        value = [value]
    steps = [step for step in steps if step != (None, True)] or [("a", False)]
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    named = [json.loads(one) for one in found(written(steps), text)]
    selected = chosen(value, steps)
    # those within another are part of it
    assert all(one in selected for one in named)
    assert all(any(one in chosen([outer], [(None, True)]) for outer in named) for one in selected)


LONG = st.sampled_from(
    [b'{"": "aaaaaaaaaa bbbb, ccc]"}', b'{"a" \n   :   [1 , "xx\\"yy" ] , "b" : -1.25E+10 }', b"[12345678,  null ]"]
)


@given(json_values.map(lambda value: json.dumps([value]).encode()) | LONG, some_steps, st.integers(1, 12))
def test_values_that_are_longer_than_one_match_are_selected_too(
    text: bytes, steps: list[tuple[str | int | None, bool]], longest: int
) -> None:
    steps = [step for step in steps if step != (None, True)] or [("a", False)]
    paths = JsonPaths([written(steps)])
    expected = paths.spans(text)
    with patch.object(json_paths, "_MAX_MATCH", longest):
        assert paths.spans(text) == expected


def test_a_long_text_can_be_stopped() -> None:
    stop = Stop()
    stop.is_set = True
    with stoppable(stop), pytest.raises(StoppedError):
        found("$.a", "[" + "1," * 20_000 + "1]")


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:\\u 1a', max_size=20).map(str.encode))
def test_bytes_that_are_not_a_json_object_or_array_are_rejected(data: bytes) -> None:
    try:
        readable = isinstance(json.loads(data.decode()), dict | list)
    except (ValueError, RecursionError):
        readable = False
    if readable:
        JsonPaths(["$..a"]).spans(data)
    else:
        with pytest.raises(NotReadableError):
            JsonPaths(["$..a"]).spans(data)


@pytest.mark.parametrize("text", ['"a"', "1", "null", "", " ", '{"a": 1} x', '{"a": NaN}', "{'a': 1}", "[" * 600])
def test_invalid_json_or_a_scalar_raises_not_readable(text: str) -> None:
    with pytest.raises(NotReadableError):
        found("$.a", text)


@pytest.mark.parametrize("levels", range(8))
def test_skipped_or_selected_values_can_be_nested(levels: int) -> None:
    inside = '[{"x": "]}\\\\\\""}, ' * levels + '"a"' + ', [], {"a": 0}]' * levels
    assert found("$.a", f'{{"b": {inside}, "a": 1}}') == ["1"]
    assert found("$.b", f'{{"b": {inside}, "a": 1}}') == [inside]
    assert found("$[1][*]", f"[{inside}, [{inside}, 2], {inside}]") == [inside, "2"]


def test_json_of_the_maximum_depth_is_read() -> None:
    assert found("$..a", "[" * 511 + '{"a": 1}' + "]" * 511) == ["1"]


NO_PATHS = ["", "a", "$", "$.", "$.a.", "$.a-b", "$[-1]", "$[01]", "$[1:2]", "$['a','b']", "$[?@.a]", "$.a b", "$...a"]


@pytest.mark.parametrize("path", [*NO_PATHS, "$['a", "$['a\\u0061']"])
def test_an_unsupported_path_is_rejected_with_the_supported_kinds(path: str) -> None:
    with pytest.raises(ValueError, match=r"write \$, then \.name, \['name'\], \[0\], \[\*\] or \.\.name"):
        JsonPaths([path])


def test_paths_that_would_need_too_much_memory_are_rejected() -> None:
    with pytest.raises(ValueError, match="too many wildcards"):
        JsonPaths(["$..a" + "[*]" * 12])
    assert found(["$..a" + "[*]" * 5], '{"a": [[[[[7]]]]]}') == ["7"]
