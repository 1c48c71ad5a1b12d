"""From settings to rules: what is wrong is one line with its key."""

from __future__ import annotations

from typing import Any

import pytest
from support.policies import Stub

from kafka_sidecar.policies.plans import ignore_failure
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.validation.from_config import find_mistakes, rules
from kafka_sidecar.proxy.features.validation.rules import Rules

NO_ID = bytes(16)


def made(**settings: Any) -> Rules:
    return rules(Config.model_validate({"bootstrap_servers": "a:1", **settings}), ignore_failure, None)


def test_topics_use_policies_by_the_names_that_they_have_in_the_file() -> None:
    found = made(
        policies={"strict": {"type": "support.policies:Stub", "refused": "worse", "on_error": "open"}},
        topics=[{"name": "orders", "policy": "strict, require_header:id", "mode": "shadow", "percent": 20}],
    ).of("orders", NO_ID)
    assert found is not None
    assert (found.mode, found.percent) == ("shadow", 20)
    rule, header = found.plan.rules
    assert isinstance(rule.policy, Stub)
    assert (rule.name, rule.fail_open, rule.policy.refused) == ("strict", True, "worse")
    assert (header.name, header.fail_open, header.text) == ("require_header", False, "id")


def test_a_facade_class_gets_every_topics_whole_string() -> None:
    found = made(
        validation={"class_name": "support.policies:Stub", "settings": {"refused": "evil"}, "on_error": "open"},
        topics=[{"name": "*", "record.validation.policy": "anything, at: all"}],
    ).of("orders", NO_ID)
    assert found is not None
    (rule,) = found.plan.rules
    assert isinstance(rule.policy, Stub)
    assert (rule.name, rule.text, rule.fail_open, rule.policy.refused) == (
        "Stub",
        "anything, at: all",
        True,
        "evil",
    )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"policies": {"x": {"type": "nowhere:X"}}}, "policies: policy x: policy class X of module nowhere, among"),
    ({"policies": {"x": {}}}, "policies: policy x: unknown policy 'x'"),
    (
        {"policies": {"x": {"type": "support.policies:Stub", "color": 1}}},
        "policies: policy x: color: is not a setting",
    ),
    ({"validation": {"class_name": "support.policies:None"}}, "policies: policy None: "),
    ({"topics": [{"name": "orders", "policy": "nothing"}]}, "topics: orders: unknown policy 'nothing'"),
    (
        {"topics": [{"name": "orders", "policy": "require_header:a,,"}]},
        "topics: orders: 'require_header:a,,' is invalid at",
    ),
]


@pytest.mark.parametrize(("settings", "line"), WRONG)
def test_what_is_wrong_is_one_line_with_its_key(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError) as error:
        made(**settings)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_policies_of_rules_that_cannot_be_are_closed() -> None:
    with pytest.raises(ValueError, match="nonsense means nothing"):
        made(
            policies={"stub": {"type": "support.policies:Stub"}},
            topics=[{"name": "a", "policy": "stub:nonsense"}],
        )
    assert Stub.opened[-1].closed == 1


def test_a_topic_says_what_its_consumers_get() -> None:
    policies = {"stub": {"type": "support.policies:Stub"}}
    topics: list[dict[str, Any]] = [
        {"name": "hidden", "policy": "stub", "consume": "hide"},
        {"name": "marked", "consume": {"action": "mark", "policy": "stub", "header": "bad"}},
        {"name": "off", "policy": "stub", "consume": False},
        {"name": "disabled", "policy": "stub", "mode": "off", "consume": "hide"},
    ]
    found = made(policies=policies, topics=topics)
    hidden, marked = found.consumed("hidden", NO_ID), found.consumed("marked", NO_ID)
    assert hidden is not None
    assert marked is not None
    assert (hidden.action, hidden.header) == ("hide", "kafka_sidecar.invalid")
    assert hidden.applied == found.of("hidden", NO_ID)
    assert (marked.action, marked.header, marked.applied.text) == ("mark", "bad", "stub")
    assert marked.applied.source == "topics: marked, consume"
    assert found.of("marked", NO_ID) is None, "nothing is validated when it is produced"
    assert [found.consumed(name, NO_ID) for name in ("off", "disabled", "other")] == [None] * 3
    assert (found.consume, found.hide) == (True, True)
    assert not made(policies=policies, topics=topics[2:]).consume
    assert not made(policies=policies, topics=topics[1:]).hide


MISTAKES: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({"consume": "hide"}, ("consume",), "has no effect: the topic has no policy"),
    ({"policy": "json", "consume": {"header": "x"}}, ("consume",), "has no effect: set its action"),
    ({"policy": "json", "mode": "off", "consume": "mark"}, ("consume",), "has no effect: the mode of the topic is off"),
    ({"consume": {"action": "hide", "policy": "nothing"}}, ("consume", "policy"), "unknown policy 'nothing'"),
]


@pytest.mark.parametrize(("entry", "at", "text"), MISTAKES)
def test_what_consumers_would_never_get_is_a_mistake(entry: dict[str, Any], at: tuple[str, ...], text: str) -> None:
    given = Config.model_validate({"bootstrap_servers": "a:1", "topics": [{"name": "orders", **entry}]})
    (mistake,) = find_mistakes(given)
    assert mistake.location == ("topics", 0, *at)
    assert mistake.text.startswith(text)


def test_a_policy_may_be_set_on_the_topic_later() -> None:
    settings = {"topic_configs": {"topic": "configs"}, "topics": [{"name": "orders", "consume": "hide"}]}
    assert not list(find_mistakes(Config.model_validate({"bootstrap_servers": "a:1", **settings})))
