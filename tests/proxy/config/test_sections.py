"""The section of who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.in_process import config

from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.sections import AclRule, Authorization


def test_without_rules_everything_is_allowed() -> None:
    assert not Authorization().is_set
    assert Authorization(default="deny").is_set
    assert Authorization.model_validate({"rules": [{"topics": ["a"]}]}).is_set


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({}, "topics, groups, transactional_ids and cluster are missing: name one"),
        ({"topics": ["a"], "operations": []}, "at least 1"),
        ({"topics": ["a"], "operations": ["peek"]}, "'read'"),
        ({"topics": ["a"], "apis": ["Delete"]}, "unknown API Delete: use the names of Kafka's protocol"),
        ({"topics": ["a"], "permission": "maybe"}, "'allow' or 'deny'"),
    ],
)
def test_a_rule_names_resources_and_kafkas_operations(rule: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        AclRule.model_validate(rule)


def test_nothing_is_exported_by_default() -> None:
    assert config("a:1").otlp.endpoint is None


@pytest.mark.parametrize("wrong", [{"endpoint": "collector:4318"}, {"sample": 2}, {"interval": "0s"}])
def test_wrong_settings_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises((ConfigError, ValueError)):
        config("a:1", otlp=wrong)
