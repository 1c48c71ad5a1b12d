"""From the configuration file to rules: policies loaded and configured, the strings of topics understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kafka_sidecar.plugins.settings import FileSettings, quote
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings, parse_items
from kafka_sidecar.policies.plans import OnFailure
from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake, explain_plugin
from kafka_sidecar.proxy.config.registries import registries
from kafka_sidecar.proxy.config.sections import Consume, Policy, Topic
from kafka_sidecar.proxy.features.validation.rules import ConsumeRule, Rules, TopicConfig, TopicRule

_WORD = re.compile(r"[\w-]+")


def catalog(config: Config, report: OnFailure) -> PolicyCatalog:
    """The policies of a configuration. Raises ValueError: one line that says which is wrong."""
    return PolicyCatalog(
        {name: _settings(config, name, policy) for name, policy in config.policies.items()}, _facade(config), report
    )


def opens_others(config: Config) -> bool:
    """Whether some policies are no part of the sidecar; the others are imported."""
    types = {policy.type or name for name, policy in config.policies.items()}
    if config.validation.class_name is not None:
        types.add(config.validation.class_name)
    named = set().union(*(_WORD.findall(text) for topic in config.topics for _, text in _strings(topic)))
    POLICIES.import_built_in(types | named)
    return not types <= POLICIES.built_in.keys() or not POLICIES.installed().keys().isdisjoint(named)


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """All that is wrong with policies and topics; each policy is opened alone: `rules` stops at the first mistake."""
    valid: dict[str, PolicySettings] = {}
    for name, policy in config.policies.items():
        settings = _settings(config, name, policy)
        try:
            PolicyCatalog({name: settings}).close()
            valid[name] = settings
        except ValueError as error:
            yield from explain_plugin(error, f"policy {name}", ("policies", name))
    yield from _schema_policy_mistakes(config)
    try:
        policies = PolicyCatalog(valid, _facade(config))
    except ValueError as error:
        yield from explain_plugin(error, "", ("validation", "class_name"))
        return
    invalid = config.policies.keys() - valid.keys()  # an unknown policy would be reported for each topic again
    for index, topic in enumerate(config.topics):
        for at, text in _strings(topic):
            try:
                if not (invalid and invalid & _names(text)):
                    policies.plan(text)
            except ValueError as error:
                yield Mistake(("topics", index, *at), str(error))
        yield from _consume_mistakes(config, topic, ("topics", index, "consume"))
    policies.close()


def _consume_mistakes(config: Config, topic: Topic, at: tuple[str | int, ...]) -> Iterator[Mistake]:
    consume = topic.consume
    if consume.action == "off":
        if consume != Consume():
            yield Mistake(at, "has no effect: set its action to hide or mark")
    elif consume.policy is None and topic.policy is None and config.topic_configs.topic is None:
        yield Mistake(at, "has no effect: the topic has no policy; name one here or under topics.policy")
    elif topic.mode == "off":
        yield Mistake(at, "has no effect: the mode of the topic is off")


def _schema_policy_mistakes(config: Config) -> Iterator[Mistake]:
    name, at = config.topic_configs.schema_policy, ("topic_configs", "schema_policy")
    if name is None:
        return
    policy = config.policies.get(name)
    if policy is None or (policy.type or name) != "schema":
        yield Mistake(at, f"{quote(name)} is no policy of the type schema: add it under policies:")
    if config.topic_configs.topic is None:
        yield Mistake(at, "has no effect: name the topic of topic configs under topic_configs.topic")
    if config.validation.class_name is not None:
        yield Mistake(at, "cannot be used with validation.class_name, which gets the strings of all topics")


def _names(text: str) -> set[str]:
    return {name for name, _ in parse_items(text)}


def _facade(config: Config) -> PolicySettings | None:
    whole = config.validation
    if whole.class_name is None:
        return None
    settings = FileSettings(whole.settings, Path(), registries(config.schema_registries))
    return PolicySettings(whole.class_name, whole.class_path, whole.on_error == "open", settings)


def _settings(config: Config, name: str, policy: Policy) -> PolicySettings:
    settings = policy.settings_with(registries(config.schema_registries))
    return PolicySettings(policy.type or name, policy.class_path, policy.on_error == "open", settings)


def rules(config: Config, report: OnFailure, topic_config: TopicConfig | None) -> Rules:
    """The rules of a configuration, each topic's string tried out.

    Raises ValueError: one line with the key that is wrong.
    """
    try:
        policies = catalog(config, report)
    except ValueError as error:
        raise ValueError(f"policies: {error}") from error
    for topic in config.topics:
        for _, text in _strings(topic):
            try:
                policies.plan(text)
            except ValueError as error:
                policies.close()
                raise ValueError(f"topics: {topic.name}: {error}") from error
    return Rules(policies, [_topic_rule(topic) for topic in config.topics], topic_config)


def _topic_rule(topic: Topic) -> TopicRule:
    consume = topic.consume
    rule = ConsumeRule(consume.action, consume.policy, consume.header) if consume.action != "off" else None
    return TopicRule(topic.name, topic.policy, topic.mode, topic.percent, rule)


def _strings(topic: Topic) -> Iterator[tuple[tuple[str, ...], str]]:
    """The policy strings of a topic, and where they are."""
    if topic.policy is not None:
        yield ("policy",), topic.policy
    if topic.consume.policy is not None:
        yield ("consume", "policy"), topic.consume.policy
