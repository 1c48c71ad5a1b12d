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
def test_what_is_as_large_as_the_limit_passes_and_a_byte_more_does_not(
    setting: str, record: dict[str, Any], reason: str, message: str, refusals: Refusals
) -> None:
    assert refusals("limits", {setting: 8}, {}, record) == []
    assert refusals("limits", {setting: 7}, {}, record) == [(1, reason, f"Topic orders requires {message} 7 bytes")]


def test_a_record_is_measured_as_it_is_written(refusals: Refusals) -> None:
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


def test_nothing_is_a_limit_too(refusals: Refusals) -> None:
    settings = {"max_headers": 0, "max_key_bytes": 0}
    found = refusals("limits", settings, {"headers": [("a", b"")]}, {"key": b"a"}, {"key": b""}, {})
    assert [(index, reason) for index, reason, _ in found] == [(0, "header_count"), (1, "key_size")]


def test_null_has_no_size(refusals: Refusals) -> None:
    settings = {"max_key_bytes": 0, "max_value_bytes": 0, "max_header_bytes": 1}
    assert refusals("limits", settings, {"key": None, "value": None, "headers": [("a", None)]}) == []


def test_a_batch_with_too_many_records_is_refused_without_looking_into_it(
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


def test_a_limit_on_records_in_a_batch_alone_never_opens_one() -> None:
    plan = PolicyCatalog({"few": PolicySettings("limits", settings={"max_records": 2})}).plan("few")
    assert not plan.hints.access_contents


def test_limits_may_be_written_with_their_unit(refusals: Refusals) -> None:
    assert refusals("limits", {"max_value_bytes": "1KiB"}, {"value": bytes(1024)}) == []
    assert refusals("limits", {"max_value_bytes": "1KiB"}, {"value": bytes(1025)}) != []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has no effect: set one of max_record_bytes"),
        ({"max_keys": 1}, "max_keys is not a setting; the settings are max_record_bytes"),
        ({"max_key_bytes": -1}, "max_key_bytes: write a number of bytes"),
        ({"max_headers": "many"}, "max_headers: "),
    ],
)
def test_what_cannot_be_a_limit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("limits", settings=settings)})


def test_a_topic_cannot_give_it_an_argument() -> None:
    catalog = PolicyCatalog({"it": PolicySettings("limits", settings={"max_headers": 1})})
    with pytest.raises(ValueError, match="policy it: takes no argument, got '5'"):
        catalog.plan("it:5")
