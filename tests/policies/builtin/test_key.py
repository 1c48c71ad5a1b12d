"""Keys that are required or must match a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings

Refusals = Callable[..., list[tuple[int, str, str]]]
MISSING = "Topic orders requires records to have a key"


def test_a_null_key_is_rejected_and_an_empty_key_is_accepted(refusals: Refusals) -> None:
    assert refusals("key", {}, {"key": b""}, {}, {"key": b"k"}, {}) == [(1, "no_key", MISSING), (3, "no_key", MISSING)]


def test_a_key_must_match_the_pattern_as_a_whole(refusals: Refusals) -> None:
    keys = [b"orders-17", b"orders-17 ", b"xorders-17", b"orders-", b"orders-1\n"]
    text = "Topic orders requires record keys to match: orders-[0-9]+"
    expected = [(index, "key_pattern", text) for index in (1, 2, 3, 4)]
    assert refusals("key", {"pattern": "orders-[0-9]+"}, *({"key": key} for key in keys)) == expected
    assert refusals("key", {}, *({"key": key} for key in keys), argument="orders-[0-9]+") == expected


def test_an_optional_key_can_be_null_but_must_match_the_pattern(refusals: Refusals) -> None:
    settings = {"required": False, "pattern": "[a-z]+"}
    assert [index for index, *_ in refusals("key", settings, {}, {"key": b"1"})] == [1]


def test_an_empty_key_must_match_the_pattern_too(refusals: Refusals) -> None:
    assert [reason for _, reason, _ in refusals("key", {"pattern": "[a-z]+"}, {"key": b""})] == ["key_pattern"]
    assert refusals("key", {"pattern": "[a-z]*"}, {"key": b""}) == []


def test_missing_and_mismatched_keys_are_reported_in_record_order(refusals: Refusals) -> None:
    found = refusals("key", {"pattern": "a"}, {"key": b"b"}, {}, {"key": b"b"})
    assert [(index, reason) for index, reason, _ in found] == [(0, "key_pattern"), (1, "no_key"), (2, "key_pattern")]


def test_a_key_that_is_not_utf_8_does_not_match_a_dot(refusals: Refusals) -> None:
    found = refusals("key", {"pattern": ".*"}, {"key": "Grüße".encode()}, {"key": b"\xff"})
    assert [index for index, *_ in found] == [1]


def test_a_pattern_with_catastrophic_backtracking_is_matched_in_linear_time(refusals: Refusals) -> None:
    found = refusals("key", {"pattern": "(a+)+b"}, {"key": b"a" * 100_000})
    assert [index for index, *_ in found] == [0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pattern": "["}, r"pattern: '\[' is not valid in RE2: missing \]"),
        ({"pattern": "(?=a)"}, "RE2 has no look-around"),
        ({"required": "maybe"}, "required: write true or false"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("key", settings=settings)})


def test_an_argument_that_is_not_a_pattern_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"policy key: .* is not valid in RE2"):
        PolicyCatalog({}).plan("key:[")


def test_a_key_policy_without_requirements_is_rejected() -> None:
    with pytest.raises(ValueError, match="has no effect"):
        PolicyCatalog({"it": PolicySettings("key", settings={"required": False})}).plan("it")
