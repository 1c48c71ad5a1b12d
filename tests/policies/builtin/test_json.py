"""Values and keys that must be JSON; the syntax itself is tested in tests/codec/json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.policies.builtin.json import WellFormedJson
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import ALL, Hints
from kafka_sidecar.policies.testing import check

Refusals = Callable[..., list[tuple[int, str, str]]]
VALUE, KEY = "Topic orders requires record values to be JSON: ", "Topic orders requires record keys to be JSON: "


def test_values_that_are_not_json_are_rejected_with_reason_and_position(refusals: Refusals) -> None:
    values = [b'{"a": [1, null]}', b'{"a": NaN}', b"", b"1", b'"\xff"']
    assert refusals("json", {}, *({"value": value} for value in values)) == [
        (1, "not_json", f"{VALUE}unexpected character at byte 6"),
        (2, "not_json", f"{VALUE}empty at byte 0"),
        (4, "not_json", f"{VALUE}not UTF-8 at byte 1"),
    ]


def test_the_key_can_be_validated_instead_of_the_value(refusals: Refusals) -> None:
    bad_key, bad_value = {"key": b"{", "value": b"1"}, {"key": b"1", "value": b"{"}
    assert refusals("json", {"part": "key"}, bad_key, bad_value) == [(0, "not_json", f"{KEY}ends too early at byte 1")]
    both = refusals("json", {"part": "both"}, bad_key, bad_value, {"key": b"[", "value": b"{"})
    assert [message for *_, message in both] == [
        f"{KEY}ends too early at byte 1",
        f"{VALUE}ends too early at byte 1",
        f"{KEY}ends too early at byte 1",
    ]


def test_null_is_accepted_unless_forbidden(refusals: Refusals) -> None:
    null, text = {"key": None, "value": None}, {"key": b"null", "value": b"null"}
    assert refusals("json", {"part": "both"}, null, text) == []
    assert refusals("json", {"part": "both", "allow_null": False}, null, text) == [
        (0, "null_key", "Topic orders requires record keys not to be null")
    ]
    assert refusals("json", {"allow_null": False}, null, text) == [
        (0, "null_value", "Topic orders requires record values not to be null")
    ]


def test_a_duplicate_key_in_an_object_is_rejected_if_configured(refusals: Refusals) -> None:
    twice, once = {"value": b'{"a": 1, "\\u0061": 2}'}, {"value": b'{"a": {"a": 1}}'}
    assert refusals("json", {}, twice, once) == []
    assert refusals("json", {"unique_keys": True}, twice, once) == [
        (0, "duplicate_key", f"{VALUE}a key is twice in an object")
    ]


@pytest.mark.parametrize("number", [b"9007199254740992", b"-9007199254740992", b"1e400", b"-1e400"])
def test_a_number_beyond_double_precision_is_rejected_if_configured(number: bytes, refusals: Refusals) -> None:
    settings = {"exact_numbers": True}
    exact = {"value": b"[9007199254740991, 1e308, 0.1]"}
    assert refusals("json", {}, {"value": number}) == []
    assert refusals("json", settings, exact, {"value": number}) == [
        (1, "big_number", f"{VALUE}a number that a double cannot hold")
    ]


def test_depth_is_limited(refusals: Refusals) -> None:
    deep = {"value": b"[" * 3 + b"]" * 3}
    assert refusals("json", {"max_depth": 3}, deep) == []
    assert refusals("json", {"max_depth": 2}, deep) == [(0, "not_json", f"{VALUE}deeper than 2 at byte 2")]
    assert refusals("json", {"unique_keys": True, "exact_numbers": True}, {"value": b"[" * 100_000}) != []


@given(st.binary(max_size=40))
def test_random_bytes_never_raise_and_are_not_quoted_in_the_message(value: bytes) -> None:
    error = check("json", value=value)
    if error is not None:
        assert error.isascii()
        assert len(error) < 150


texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(texts)
def test_json_of_a_standard_encoder_is_accepted(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    assert check("json", value=text) is None
    assert check("json", value=text[:-1] + b"\x00") is not None


@pytest.mark.parametrize(
    ("part", "hints"),
    [
        ("key", Hints(access_key_bytes=ALL)),
        ("value", Hints(access_value_bytes=ALL)),
        ("both", Hints(access_key_bytes=ALL, access_value_bytes=ALL)),
    ],
)
def test_the_hints_name_the_validated_parts(part: str, hints: Hints) -> None:
    assert PolicyCatalog({"it": PolicySettings("json", settings={"part": part})}).plan("it").hints == hints


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"part": "header"}, "part: write 'value', 'key' or 'both'"),
        ({"max_depth": 100_000}, "max_depth: write 512 or less"),
        ({"depth": 1}, r"depth is not a setting; did you mean max_depth\? the settings are part, allow_null"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("json", settings=settings)})


def test_an_argument_is_rejected() -> None:
    with pytest.raises(ValueError, match="takes no argument, got 'key'"):
        PolicyCatalog({}).plan("json:key")


@pytest.mark.parametrize("settings", [{}, {"unique_keys": True}, {"exact_numbers": True}])
def test_json_that_becomes_objects_is_validated_at_once_only_in_small_batches(settings: dict[str, Any]) -> None:
    policy = WellFormedJson()
    policy.configure(settings)
    assert policy.bytes_at_once == (128 << 10 if settings else 1 << 20)
