"""Record validation in a running sidecar: the rules that are current, and what its stage of a Produce needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.policies.contract import NO_POLICY
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.exchanges.fetched_stages import FetchServices
from kafka_sidecar.proxy.exchanges.held_clients import HiddenOffsets
from kafka_sidecar.proxy.features.feature import Feature, Rejections, Site, Stages, TopicPolicies
from kafka_sidecar.proxy.features.refused import Letters
from kafka_sidecar.proxy.features.validation.consume_stage import (
    WITHHELD,
    CheckStage,
    ConsumeTerms,
    Pause,
    ShareCheckStage,
)
from kafka_sidecar.proxy.features.validation.consume_stats import ConsumeStats
from kafka_sidecar.proxy.features.validation.from_config import rules
from kafka_sidecar.proxy.features.validation.rules import Rules, TopicConfig
from kafka_sidecar.proxy.features.validation.stage import PolicyFetch, Terms, TopicConfigsKnown, ValidationStage
from kafka_sidecar.proxy.features.validation.stats import ValidationStats, durations_of
from kafka_sidecar.proxy.runtime.performer import Performer, PlugInFetches
from kafka_sidecar.proxy.telemetry.metrics import Family

MAX_CONFIGS_WAIT_S = 10.0  # producers give a request 30 s


class Validator(Feature):
    """The current rules. A request that has begun is validated by those that were current then."""

    def __init__(
        self,
        config: Config | None,
        topic_configs: TopicPolicies | None = None,
        id_of: Callable[[str], bytes] = lambda _: NO_ID,
        name_of: Callable[[bytes], str | None] = lambda _: None,
        letters: Callable[[], Letters | None] = lambda: None,
    ) -> None:
        """Raises ConfigError where a policy or a topic's string is wrong.

        Args:
            config: whose rules apply; None: those that `load` has loaded, before anything else is called.
            topic_configs: the policies that are set on topics, if they can be.
            id_of: returns a topic's id by its name, zeros if it is not known.
            name_of: returns a topic's name by its id, None if it is not known.
            letters: returns what keeps rejected records, if anything does.
        """
        self._letters = letters
        self.stats = ValidationStats(time.time)
        self.consume_stats = ConsumeStats(self.stats)
        self._topic_configs = topic_configs
        self._id_of = id_of
        self._name_of = name_of
        self._fetches = PlugInFetches("policy")
        if config is not None:
            self.apply(config)

    def load(self, config: Config) -> Callable[[], None]:
        return partial(self._apply, config, self._rules(config))

    def apply(self, config: Config) -> None:
        """Validate by the rules of a configuration from now on. Raises ConfigError; the old rules stay then."""
        self._apply(config, self._rules(config))

    def _rules(self, config: Config) -> Rules:
        try:
            return rules(config, self.stats.policy_failed, self._topic_config())
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def _apply(self, config: Config, new: Rules) -> None:
        self.rules = new
        self._terms = Terms(
            self.rules,
            self.stats,
            config.validation.max_batch,
            self._id_of,
            TimeLimit("validation", config.validation.timeout, config.threads.max_wait),
            config.limits.max_record_errors,
            self._letters(),
        )
        self._fetching = FetchServices(
            name_of=self._name_of,
            report=self.consume_stats,
            limit=config.validation.max_batch,
            hold_for=tuple(config.interception.hold_for),
            max_records=config.limits.max_records,
            hidden_offsets=HiddenOffsets(),  # other rules may hide other records
            time_limit=self._terms.time_limit,
            withheld_error=WITHHELD,
            pause=Pause(),
        )
        self.stats.is_reserved = partial(self._is_configured, {topic.name for topic in config.topics})

    def files(self) -> Iterable[Path]:
        return self.rules.files()

    def stages(self) -> Stages:
        stage = ValidationStage(self._terms, self._topic_configs)
        if not self.rules.consume:
            return Stages(produce=(stage,))
        terms = ConsumeTerms(self.rules, self.consume_stats, self._id_of, stage.configs_are_known)
        services = self._fetching
        return Stages(
            produce=(stage,), fetch=(CheckStage(terms, services),), acquired=(ShareCheckStage(terms, services),)
        )

    def families(self) -> Iterable[Family]:
        yield from self.stats.families()
        yield from self.consume_stats.families()
        yield durations_of(self.rules.calls)

    def rejections(self) -> Rejections:
        return self.stats.recent

    def topic_state(self, name: str) -> Mapping[str, Any]:
        rule = self.rules.consume_rule(name)
        consumers = {"consumers": rule.action} if rule is not None else {}
        try:
            applied = self.rules.of(name, self._id_of(name))
        except ValueError:  # a string that no policy understands, which the topic's mode says too
            return consumers
        found = applied.subjects(name) if applied is not None else ()
        return {**consumers, "subjects": list(found)} if found else consumers

    def register(self, performer: Performer) -> None:
        """Say how the needs of this feature are met."""
        performer.add(PolicyFetch, lambda need: self._fetches.resolve(need.rule.name, need.rule.policy, need.key))
        performer.add(Pause, lambda need: asyncio.sleep(need.seconds))
        performer.add(TopicConfigsKnown, lambda need: self._wait_for_configs())

    def check(self, text: str) -> None:
        """Raises ValueError for a ``record.validation.policy`` that no policy understands."""
        self.rules.check(text)

    def _topic_config(self) -> TopicConfig | None:
        kept = self._topic_configs
        return (
            None if kept is None else lambda topic, topic_id: kept.policy_of(topic, topic_id if any(topic_id) else None)
        )

    def _is_configured(self, names: Collection[str], topic: str) -> bool:
        """Whether the file names the topic, or a policy is set on it with Kafka's own tools."""
        return topic in names or (self._topic_configs is not None and self._topic_configs.policy_of(topic) != NO_POLICY)

    async def _wait_for_configs(self) -> str | None:
        """Wait until the configs of topics are known; why they are not, where it takes too long."""
        kept = self._topic_configs
        if kept is None:
            return None
        try:
            async with asyncio.timeout(MAX_CONFIGS_WAIT_S):
                await kept.wait_ready()
        except TimeoutError:
            return kept.trouble
        return None


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    names = site.topics
    validator = Validator(None, site.policies, names.id_of, names.name_of, lambda: site.letters)
    validator.register(site.performer)
    site.check_policy = validator.check
    return validator
