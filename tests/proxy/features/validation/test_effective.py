"""The policies of a topic as they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import Hints
from kafka_sidecar.proxy.features.validation.effective import describe_applied, parts_read
from kafka_sidecar.proxy.features.validation.rules import Rules, TopicRule

STUB = "support.policies:Stub"


def described(policy: str, entry: str = "orders", percent: int = 100, **settings: PolicySettings) -> dict[str, Any]:
    applied = Rules(PolicyCatalog(settings), [TopicRule(entry, policy, "enforce", percent)], None).of("orders", NO_ID)
    assert applied is not None
    return describe_applied(applied)


def test_a_built_in_policy_has_all_its_settings() -> None:
    found = described("small", small=PolicySettings("limits", settings={"max_value_bytes": 10}))
    (policy,) = found["policies"]
    assert policy["class"] == "kafka_sidecar.policies.builtin.limits:Limits"
    assert policy["settings"]["max_value_bytes"] == 10
    assert len(policy["settings"]) > 1


def test_a_policy_of_an_operator_has_the_settings_that_it_was_given() -> None:
    found = described("own:x", own=PolicySettings(STUB, fail_open=True, settings={"refused": "worse"}))
    assert found["policies"] == [
        {
            "name": "own", "class": STUB, "argument": "x", "on_error": "open", "settings": {"refused": "worse"},
            "reads": "the key, the value, headers",
        }
    ]  # fmt: skip


def test_the_hash_is_that_of_the_effect_and_not_of_the_place_that_it_is_from() -> None:
    hashes = [
        described("json")["hash"], described("json", entry="*")["hash"], described("json", percent=50)["hash"],
        described("json", json=PolicySettings("json", settings={"max_depth": 3}))["hash"],
    ]  # fmt: skip
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    ("hints", "text"),
    [
        (Hints(), "the batch header only, without decompression"),
        (Hints(access_value_bytes=5, access_headers=True), "5 bytes of the value, headers"),
        (Hints(access_metadata=True), "sizes and timestamps"),
    ],
)
def test_the_parts_that_a_policy_reads_are_named(hints: Hints, text: str) -> None:
    assert parts_read(hints) == text
