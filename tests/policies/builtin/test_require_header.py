"""The KIP's sample policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.policies.plans import Rejection

Batches = Callable[..., Any]
LIMIT = 1 << 20


def test_records_without_the_header_are_rejected_with_the_message_of_the_kip(
    batch: Batches, orders: TopicMetadata
) -> None:
    contents = batch(
        {"headers": [("trace-id", b"1")]},
        {},
        {"headers": [("other", b"")]},
        {"headers": [("trace-id", None), ("trace-id", b"")]},
    )
    text = "Topic orders requires records to contain a header with key: trace-id"
    found = PolicyCatalog({}).plan("require_header:trace-id").validate(orders, contents, LIMIT)
    assert found == [Rejection(index, text, "require_header", "no_header") for index in (1, 2)]


def test_a_header_with_other_capitals_is_another_header(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({"headers": [("Trace-Id", b"1")]}, {"headers": [("trace-id", b"1")]})
    found = PolicyCatalog({}).plan("require_header:Trace-Id").validate(orders, contents, LIMIT)
    assert [one.index for one in found] == [1]


def test_the_required_header_can_be_configured(batch: Batches, orders: TopicMetadata) -> None:
    catalog = PolicyCatalog({"traced": PolicySettings("require_header", settings={"key": "trace-id"})})
    (found,) = catalog.plan("traced").validate(orders, batch({}), LIMIT)
    assert found.message.endswith(": trace-id")


def test_the_header_of_the_topic_overrides_the_configured_one(batch: Batches, orders: TopicMetadata) -> None:
    catalog = PolicyCatalog({"traced": PolicySettings("require_header", settings={"key": "trace-id"})})
    (found,) = catalog.plan("traced:Grüße").validate(orders, batch({}), LIMIT)
    assert found.message.endswith(": Grüße")


def test_only_headers_are_decoded() -> None:
    hints = PolicyCatalog({}).plan("require_header:x").hints
    assert hints.access_headers
    assert (hints.access_key_bytes, hints.access_value_bytes) == (0, 0)


def test_a_require_header_without_a_header_is_rejected() -> None:
    with pytest.raises(ValueError, match="policy require_header: no header key"):
        PolicyCatalog({}).plan("require_header")


def test_as_a_facade_it_gets_the_whole_policy_string_as_in_the_kip(batch: Batches, orders: TopicMetadata) -> None:
    facade = PolicySettings("kafka_sidecar.policies.builtin.require_header.RequireHeader")
    (found,) = PolicyCatalog({}, facade).plan("a, b:c").validate(orders, batch({}), LIMIT)
    assert found.message.endswith("key: a, b:c")
    assert found.policy == "RequireHeader"
