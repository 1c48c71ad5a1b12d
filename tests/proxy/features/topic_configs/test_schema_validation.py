"""The topic configs of Confluent Server by which schemas are validated."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.features.feature import TopicPolicy
from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.features.topic_configs.entries import (
    DEFAULT_STRATEGY,
    RECORD_VALIDATION_POLICY,
    STRATEGIES,
    Entry,
    own_configs,
    schema_argument,
)

VALUE, KEY = "confluent.value.schema.validation", "confluent.key.schema.validation"
OF_VALUE = "confluent.value.subject.name.strategy"
BY_RECORD = "io.confluent.kafka.serializers.subject.RecordNameStrategy"


def test_they_are_there_only_with_a_policy_for_them() -> None:
    assert list(own_configs(lambda text: None)) == [RECORD_VALIDATION_POLICY]
    assert set(own_configs(lambda text: None, "registered")) == {
        RECORD_VALIDATION_POLICY, VALUE, KEY, OF_VALUE, "confluent.key.subject.name.strategy",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("configs", "argument"),
    [
        ({}, ""),
        ({OF_VALUE: BY_RECORD}, ""),
        ({VALUE: "false", KEY: "TRUE"}, "key=topic_name"),
        ({VALUE: "true", OF_VALUE: BY_RECORD, KEY: "true"}, "key=topic_name value=record_name"),
    ],
)
def test_a_topic_has_the_schemas_validated_that_it_says(configs: dict[str, str], argument: str) -> None:
    assert schema_argument(configs) == argument
    kept = TopicConfigs(None, None, lambda text: None, schema_policy="registered")  # type: ignore[arg-type]
    kept.entries.set(Entry("orders", b"o" * 16, {RECORD_VALIDATION_POLICY: "json", **configs}), 0)
    assert kept.policy_of("orders") == TopicPolicy("json", f"registered:{argument}" if argument else None)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (VALUE, "yes", "Expected value to be either true or false"),
        (OF_VALUE, "TopicNameStrategy", f"known are {', '.join(STRATEGIES)}"),
    ],
)
def test_wrong_values_are_rejected(name: str, value: str, why: str) -> None:
    config = own_configs(lambda text: None, "registered")[name]
    rejection = config.reject(value)
    assert rejection is not None
    assert rejection.message == f"Invalid value for configuration {name}: {why}"
    assert config.reject(config.default or "") is None
    assert DEFAULT_STRATEGY.endswith(".TopicNameStrategy")
