"""Which policies hold for a topic, from when to when."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from support.policies import Stub
from support.produce_requests import rules

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import Hints
from kafka_sidecar.proxy.features.feature import TopicPolicy
from kafka_sidecar.proxy.features.validation import rules as rules_module
from kafka_sidecar.proxy.features.validation.rules import (
    MisconfiguredError,
    Mode,
    Rules,
    TopicRule,
    describe_applied,
    parts_read,
)

NO_ID = bytes(16)
STUB = "support.policies:Stub"


def rule(name: str, policy: str | None = "stub", mode: Mode = "enforce", percent: int = 100) -> TopicRule:
    return TopicRule(name, policy, mode, percent)


def test_of_several_entries_the_first_that_fits_counts() -> None:
    made, _ = rules(rule("orders-eu", "other"), rule("orders-*", "stub"), rule("*", "headers:x"))
    found = {name: made.of(name, NO_ID) for name in ("orders-eu", "orders-us", "words")}
    assert {name: applied.text for name, applied in found.items() if applied} == {
        "orders-eu": "other", "orders-us": "stub", "words": "headers:x",
    }  # fmt: skip
    assert {name: applied.source for name, applied in found.items() if applied} == {
        "orders-eu": "topics: orders-eu", "orders-us": "topics: orders-*", "words": "topics: *",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("orders", "orders", True), ("orders", "Orders", False), ("orders", "orders-2", False),
        ("o*s", "orders", True), ("order?", "orders", True), ("order?", "order", False), ("*", "-", True),
        ("a.b", "a-b", False),
    ],
)  # fmt: skip
def test_patterns_are_those_of_a_shell_and_know_upper_case(pattern: str, topic: str, fits: bool) -> None:
    assert (rules(rule(pattern))[0].of(topic, NO_ID) is not None) is fits


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "\udcff", "o" * 250, "o" * (1 << 15)])
def test_a_name_that_no_topic_can_have_has_no_policy_and_is_not_stored(name: str) -> None:
    made, _ = rules(rule("*"))
    assert made.of(name, NO_ID) is None
    assert not made._found


def test_a_topic_without_an_entry_without_a_policy_or_off_is_not_looked_at() -> None:
    made, _ = rules(rule("bare", None), rule("off", mode="off"), rule("on"))
    assert [made.of(name, NO_ID) for name in ("other", "bare", "off")] == [None] * 3


def configured(*topics: TopicRule, **texts: str) -> Rules:
    return Rules(
        PolicyCatalog({"stub": PolicySettings("support.policies:Stub")}),
        topics,
        lambda topic, topic_id: TopicPolicy(texts.get(topic)),
    )


def test_what_is_set_on_the_topic_wins_over_the_file_and_takes_its_mode_and_share() -> None:
    made = configured(rule("orders", "stub:file", "shadow", 30), orders="stub:set", words="stub:set")
    orders, words = made.of("orders", NO_ID), made.of("words", NO_ID)
    assert orders is not None
    assert words is not None
    assert (orders.text, orders.mode, orders.percent, orders.source) == (
        "stub:set",
        "shadow",
        30,
        "the topic's config",
    )
    assert (words.text, words.mode, words.percent) == ("stub:set", "enforce", 100)


def test_what_is_added_on_the_topic_applies_besides_the_policy_of_the_file_or_of_the_topic() -> None:
    def found(policy: str | None, name: str = "orders") -> tuple[str, str]:
        policies = PolicyCatalog({"stub": PolicySettings("support.policies:Stub"), "more": PolicySettings("json")})
        made = Rules(policies, [rule("orders", "stub:file")], lambda topic, topic_id: TopicPolicy(policy, "more"))
        applied = made.of(name, NO_ID)
        assert applied is not None
        assert [one.name for one in applied.plan.rules][-1] == "more"
        return applied.text, applied.source

    assert found(None) == ("stub:file, more", "topics: orders, and its schema validation")
    assert found("stub:set") == ("stub:set, more", "the topic's config, and its schema validation")
    assert found(None, "words") == ("more", "the topic's config")


def test_off_in_the_file_wins_over_what_is_set_on_the_topic() -> None:
    assert configured(rule("orders", None, "off"), orders="stub").of("orders", NO_ID) is None


def test_a_change_on_the_topic_is_seen_at_once() -> None:
    texts: dict[str, str] = {}
    made = Rules(
        PolicyCatalog({"stub": PolicySettings("support.policies:Stub")}),
        (),
        lambda topic, topic_id: TopicPolicy(texts.get(topic)),
    )
    assert made.of("orders", NO_ID) is None
    texts["orders"] = "stub"
    assert made.of("orders", NO_ID) is not None


@pytest.mark.parametrize(
    ("mode", "percent", "enforces"), [("enforce", 100, True), ("enforce", 0, False), ("shadow", 100, False)]
)
def test_a_string_that_no_policy_understands_is_an_error_that_says_whether_it_counts(
    mode: Mode, percent: int, enforces: bool
) -> None:
    made, _ = rules(rule("orders", "stub:nonsense", mode, percent))
    with pytest.raises(MisconfiguredError, match="policy stub: nonsense means nothing") as error:
        made.of("orders", NO_ID)
    assert error.value.enforces is enforces


def test_rules_are_empty_where_no_topic_can_have_a_policy() -> None:
    assert rules(rule("a", None), rule("b", mode="off"))[0].are_empty
    assert not rules(rule("a", None), rule("b", mode="shadow"))[0].are_empty
    assert not configured().are_empty


def test_policies_are_closed_once_they_are_no_longer_used() -> None:
    made, policy = rules()
    in_use = made
    del made
    gc.collect()
    assert policy.closed == 0
    del in_use
    gc.collect()
    assert policy.closed == 1
    assert Stub.opened.pop().closed == 1


def test_the_rules_of_many_topics_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "MAX_TOPICS", 3)
    made, _ = rules(rule("a*"))
    assert [made.of(name, NO_ID) is not None for name in ("a1", "a2", "b1", "a3", "b2", "a1")] == [
        True, True, False, True, False, True,
    ]  # fmt: skip
    assert len(made._found) <= 3


def described(policy: str, entry: str = "orders", percent: int = 100, **settings: PolicySettings) -> dict[str, Any]:
    applied = Rules(PolicyCatalog(settings), [TopicRule(entry, policy, "enforce", percent)], None).of("orders", NO_ID)
    assert applied is not None
    return describe_applied(applied)


def test_a_built_in_policy_has_its_settings_that_have_a_value() -> None:
    found = described("small", small=PolicySettings("limits", settings={"max_value_bytes": 10}))
    (policy,) = found["policies"]
    assert policy["class"] == "kafka_sidecar.policies.builtin.limits:Limits"
    assert policy["settings"] == {"max_value_bytes": 10}


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
