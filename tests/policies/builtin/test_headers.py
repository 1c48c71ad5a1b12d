"""Required, allowed and forbidden headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings

Refusals = Callable[..., list[tuple[int, str, str]]]


def with_headers(*headers: tuple[str | bytes, bytes | None]) -> dict[str, Any]:
    return {"headers": headers}


def test_a_required_header_must_be_present_whatever_its_value(refusals: Refusals) -> None:
    text = "Topic orders requires records to contain a header with key: b"
    found = refusals(
        "headers", {"required": ["a", "b"]}, with_headers(("b", None), ("a", b"")), with_headers(("a", b""))
    )
    assert found == [(1, "no_header", text)]


def test_headers_that_are_not_allowed_are_rejected(refusals: Refusals) -> None:
    settings = {"allowed": ["b"], "required": ["a"], "values": {"c": "1"}}
    named = with_headers(("a", b""), ("b", b""), ("c", b"1"))
    found = refusals("headers", settings, named, with_headers(("a", b""), ("d", b"")))
    assert found == [(1, "header_not_allowed", "Topic orders allows no record headers but those with keys: a, b, c")]


def test_an_empty_list_of_allowed_headers_allows_none(refusals: Refusals) -> None:
    found = refusals("headers", {"allowed": []}, {}, with_headers(("a", b"")))
    assert found == [(1, "header_not_allowed", "Topic orders allows no record headers but those with keys: none")]


def test_every_value_of_a_header_must_match_and_null_does_not(refusals: Refusals) -> None:
    records = [
        with_headers(("v", b"17"), ("other", b"x")),
        with_headers(("v", b"17"), ("v", b"x")),
        with_headers(("v", b"x"), ("v", b"17")),
        with_headers(("v", None)),
        {},
    ]
    text = "Topic orders requires the value of the header v to match: [0-9]+"
    found = refusals("headers", {"values": {"v": "[0-9]+"}}, *records)
    assert found == [(index, "header_value", text) for index in (1, 2, 3)]


def test_headers_whose_keys_are_not_utf_8_are_compared_by_their_bytes(refusals: Refusals) -> None:
    found = refusals("headers", {"allowed": ["ü"]}, with_headers(("ü", b"")), with_headers((b"\xfc", b"")))
    assert [index for index, *_ in found] == [1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has no effect: set required, allowed or values"),
        ({"values": {"v": "("}}, r"values\.v: '\(' is not valid in RE2"),
        ({"required": "a"}, r"required: write a list, such as \[a, b\]"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("headers", settings=settings)})


def test_an_argument_is_rejected() -> None:
    with pytest.raises(ValueError, match="takes no argument"):
        PolicyCatalog({"it": PolicySettings("headers", settings={"required": ["a"]})}).plan("it:a")
