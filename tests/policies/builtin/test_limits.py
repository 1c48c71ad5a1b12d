"""Sizes and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata

Refusals = Callable[..., list[tuple[int, str, str]]]


@pytest.mark.parametrize(
    ("setting", "record", "reason", "message"),
    [
        ("max_key_bytes", {"key": b"12345678"}, "key_size", "the key to have at most"),
        ("max_value_bytes", {"value": b"12345678"}, "value_size", "the value to have at most"),
        ("max_header_bytes", {"headers": [("1234", b"5678")]}, "header_size", "the headers each to have at most"),
    ],
)
def test_a_size_equal_to_the_limit_is_accepted_and_one_byte_more_is_rejected(
    setting: str, record: dict[str, Any], reason: str, message: str, refusals: Refusals
) -> None:
    assert refusals("limits", {setting: 8}, {}, record) == []
    assert refusals("limits", {setting: 7}, {}, record) == [(1, reason, f"Topic orders requires {message} 7 bytes")]


def test_the_size_of_a_record_is_its_serialized_size(refusals: Refusals) -> None:
    # attributes, two deltas, null key, length of the value, value, number of headers
    size = 1 + 1 + 1 + 1 + 1 + 10 + 1
    record = {"value": b"0123456789"}
    assert refusals("limits", {"max_record_bytes": size}, record) == []
    ((_, reason, _),) = refusals("limits", {"max_record_bytes": size - 1}, record)
    assert reason == "record_size"


def test_headers_are_counted(refusals: Refusals) -> None:
    three = {"headers": [("a", b""), ("a", b""), ("b", None)]}
    assert refusals("limits", {"max_headers": 3}, three) == []
    text = "Topic orders requires records to have at most 2 headers"
    assert refusals("limits", {"max_headers": 2}, {}, three) == [(1, "header_count", text)]


def test_zero_is_a_valid_limit(refusals: Refusals) -> None:
    settings = {"max_headers": 0, "max_key_bytes": 0}
    found = refusals("limits", settings, {"headers": [("a", b"")]}, {"key": b"a"}, {"key": b""}, {})
    assert [(index, reason) for index, reason, _ in found] == [(0, "header_count"), (1, "key_size")]


def test_null_is_within_any_limit(refusals: Refusals) -> None:
    settings = {"max_key_bytes": 0, "max_value_bytes": 0, "max_header_bytes": 1}
    assert refusals("limits", settings, {"key": None, "value": None, "headers": [("a", None)]}) == []


def test_a_batch_with_too_many_records_is_rejected_without_decoding_it(
    batch: Callable[..., Any], orders: TopicMetadata
) -> None:
    settings = {"max_records": 2, "max_value_bytes": 1}
    plan = PolicyCatalog({"few": PolicySettings("limits", settings=settings)}).plan("few")
    assert plan.validate(orders, batch({}, {}), 1 << 20) == []
    three = batch({}, {}, {"value": b"too large"})
    (found,) = plan.validate(orders, three, 1 << 20)
    assert (found.index, found.reason) == (WHOLE_BATCH, "batch_count")
    assert found.message == "Topic orders requires batches to have at most 2 records"
    assert three.inflated == 0


def test_a_limit_on_the_number_of_records_alone_decodes_no_batch() -> None:
    plan = PolicyCatalog({"few": PolicySettings("limits", settings={"max_records": 2})}).plan("few")
    assert not plan.hints.access_contents


def test_limits_can_have_a_unit(refusals: Refusals) -> None:
    assert refusals("limits", {"max_value_bytes": "1KiB"}, {"value": bytes(1024)}) == []
    assert refusals("limits", {"max_value_bytes": "1KiB"}, {"value": bytes(1025)}) != []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has no effect: set one of max_record_bytes"),
        ({"max_keys": 1}, r"max_keys is not a setting; did you mean max_key_bytes\? the settings are max_record_bytes"),
        ({"max_key_bytes": -1}, "max_key_bytes: write a number of bytes"),
        ({"max_headers": "many"}, "max_headers: "),
    ],
)
def test_an_invalid_limit_is_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("limits", settings=settings)})


def test_an_argument_is_rejected() -> None:
    catalog = PolicyCatalog({"it": PolicySettings("limits", settings={"max_headers": 1})})
    with pytest.raises(ValueError, match="policy it: takes no argument, got '5'"):
        catalog.plan("it:5")
