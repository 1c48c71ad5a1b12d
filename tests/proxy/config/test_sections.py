"""The section of who may do what, and what others refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.in_process import config

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.proxy.config.large_messages import LargeMessages
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


@pytest.mark.parametrize(
    "options",
    [
        {"secret_access_key": "x"},
        {"AWS_SECRET_ACCESS_KEY": "x"},
        {"aws_session_token": "x"},
        {"account_key": "x"},
        {"azure_storage_sas_token": "x"},
        {"sas_key": "x"},
        {"google_service_account_key": "{}"},
        {"client_secret": "x"},
        {"aws_sse_customer_key_base64": "x"},
        {"endpoint": "https://user:pw@host"},
    ],
)
def test_a_secret_of_the_object_store_in_the_file_is_an_error(options: dict[str, str]) -> None:
    (name,) = options
    with pytest.raises(
        ValueError, match=f"object_store_options: {name}: a secret .*OBJECT_STORE_OPTIONS__{name.upper()}"
    ):
        LargeMessages.model_validate({"object_store_options": options})


def test_options_of_the_object_store_that_are_no_secrets_are_accepted() -> None:
    options = {"access_key_id": "AKIA", "region": "eu", "endpoint": "https://host:9000", "service_account_path": "/a"}
    options |= {"web_identity_token_file": "/t", "google_application_credentials_path": "/c", "skip_signature": "true"}
    secret = {"secret_access_key": VariableText("x")}  # from a variable
    assert (
        LargeMessages.model_validate({"object_store_options": options | secret}).object_store_options["region"] == "eu"
    )
