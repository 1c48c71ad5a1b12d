"""Duplicate keys and numbers beyond double precision, in valid JSON."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.json.syntax import MAX_NESTING, find_fault
from kafka_sidecar.policies.builtin.json import has_big_number, has_duplicate_key

DEEP = b'[{"a":' * (MAX_NESTING // 2) + b"0" + b"}]" * (MAX_NESTING // 2)


@pytest.mark.parametrize(
    "text", [b'{"a":1,"a":2}', b'[{"b":{"":0,"x":[],"":1}}]', '{"é":1,"\\u00e9":2}'.encode(), b'{"a":{},"b":0,"a":[]}']
)
def test_a_duplicate_key_is_found_also_if_one_is_escaped(text: bytes) -> None:
    assert find_fault(text, 0, len(text), MAX_NESTING) is None
    assert has_duplicate_key(text)


@pytest.mark.parametrize("text", [b'{"a":1,"A":{"a":2}}', b'[{"a":1},{"a":1}]', b'"a"', b"{}", b"9" * 5000, DEEP])
def test_different_objects_can_have_the_same_keys(text: bytes) -> None:
    assert find_fault(text, 0, len(text), MAX_NESTING) is None
    assert not has_duplicate_key(text)


@pytest.mark.parametrize("text", [b"9007199254740992", b"[-9007199254740992]", b"9" * 5000, b"1e400", b'{"a":-1E999}'])
def test_a_number_beyond_double_precision_is_found(text: bytes) -> None:
    assert find_fault(text, 0, len(text), MAX_NESTING) is None
    assert has_big_number(text)


@pytest.mark.parametrize(
    "text", [b"9007199254740991", b"-9007199254740991", b"1e308", b"0.1", b'"9007199254740992"', DEEP]
)
def test_a_number_within_double_precision_is_accepted(text: bytes) -> None:
    assert find_fault(text, 0, len(text), MAX_NESTING) is None
    assert not has_big_number(text)
