"""Records in the input of `policy test`."""

from __future__ import annotations

import pytest

from kafka_sidecar.policies.testing import Example
from kafka_sidecar.proxy.cli.record_lines import BadExampleError, parse_example


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
    assert parse_example(line) == expected
    assert parse_example(line.encode()) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not an object"),
        (b'{"valu": 1}', "valu: not a field of a record; the fields are headers, key"),
        (b'{"value": 1, "value_base64": ""}', "value is given twice"),
        (b'{"value_base64": "?"}', "value_base64: is not base64"),
        (b'{"value_base64": 1}', "value_base64: is not base64"),
        (b'{"headers": 1}', "headers: write"),
        (b'{"headers": [["a"]]}', "headers: write"),
        (b'{"headers": {"a": {"base64": "?"}}}', "headers: a: is not base64"),
        (b'{"timestamp": "now"}', "timestamp: write milliseconds"),
        (b'{"timestamp": 9223372036854775808}', "timestamp: write milliseconds"),
    ],
)
def test_an_invalid_line_is_rejected_with_the_reason(line: bytes, message: str) -> None:
    with pytest.raises(BadExampleError, match=message):
        parse_example(line)
