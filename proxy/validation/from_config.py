"""From the configuration file to rules: policies loaded and configured, the strings of topics understood."""

from __future__ import annotations

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.plans import OnFailure
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sections import Policy
from kafka_sidecar.proxy.validation.rules import Rules, TopicConfig, TopicRule


def catalog(config: Config, report: OnFailure) -> PolicyCatalog:
    """The policies of a configuration. Raises ValueError: one line that says which is wrong."""
    whole = config.validation
    facade = None
    if whole.class_name is not None:
        facade = PolicySettings(whole.class_name, whole.class_path, whole.on_error == "open", whole.settings)
    return PolicyCatalog({name: _settings(name, policy) for name, policy in config.policies.items()}, facade, report)


def _settings(name: str, policy: Policy) -> PolicySettings:
    return PolicySettings(policy.type or name, policy.class_path, policy.on_error == "open", policy.settings)


def rules(config: Config, report: OnFailure, topic_config: TopicConfig | None) -> Rules:
    """The rules of a configuration, each topic's string tried out.

    Raises ValueError: one line with the key that is wrong.
    """
    try:
        policies = catalog(config, report)
    except ValueError as error:
        raise ValueError(f"policies: {error}") from error
    for topic in config.topics:
        if topic.policy is not None:
            try:
                policies.plan(topic.policy)
            except ValueError as error:
                policies.close()
                raise ValueError(f"topics: {topic.name}: {error}") from error
    topics = [TopicRule(topic.name, topic.policy, topic.mode, topic.percent) for topic in config.topics]
    return Rules(policies, topics, topic_config)
