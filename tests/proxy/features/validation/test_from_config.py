"""From settings to rules: what is wrong is one line with its key."""

from __future__ import annotations

from typing import Any

import pytest
from support.policies import Stub

from kafka_sidecar.policies.plans import ignore_failure
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.validation.from_config import rules
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
