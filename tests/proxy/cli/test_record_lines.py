"""Records as people write them."""

from __future__ import annotations

import pytest

from kafka_sidecar.policies.testing import Example
from kafka_sidecar.proxy.cli.record_lines import BadExampleError, example


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{}", Example(None, None, [], 0)),
        ('{"value": null, "key": ""}', Example(None, b"", [], 0)),
        ('{"value": "{\\"a\\":1}"}', Example(b'{"a":1}', None, [], 0)),
        ('{"value": {"a": [1, "ü"]}, "key": 17}', Example('{"a":[1,"ü"]}'.encode(), b"17", [], 0)),
        ('{"value_base64": "/w==", "key_base64": ""}', Example(b"\xff", b"", [], 0)),
        ('{"headers": {"a": "1", "b": null}}', Example(None, None, [("a", b"1"), ("b", None)], 0)),
        ('{"headers": [["a", "1"], ["a", {"base64": "/w=="}]]}', Example(None, None, [("a", b"1"), ("a", b"\xff")], 0)),
        ('{"headers": {"a": {"b": 1}}}', Example(None, None, [("a", b'{"b":1}')], 0)),
        ('{"timestamp": -1}', Example(None, None, [], -1)),
    ],
)
def test_a_line_is_a_record(line: str, expected: Example) -> None:
    assert example(line) == expected
    assert example(line.encode()) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "is no object"),
        (b'{"valu": 1}', "valu: is no field of a record; the fields are headers, key"),
        (b'{"value": 1, "value_base64": ""}', "value is there twice"),
        (b'{"value_base64": "?"}', "value_base64: is not base64"),
        (b'{"value_base64": 1}', "value_base64: is not base64"),
        (b'{"headers": 1}', "headers: write"),
        (b'{"headers": [["a"]]}', "headers: write"),
        (b'{"headers": {"a": {"base64": "?"}}}', "headers: a: is not base64"),
        (b'{"timestamp": "now"}', "timestamp: write milliseconds"),
        (b'{"timestamp": 9223372036854775808}', "timestamp: write milliseconds"),
    ],
)
def test_what_is_no_record_is_told_with_the_reason(line: bytes, message: str) -> None:
    with pytest.raises(BadExampleError, match=message):
        example(line)
