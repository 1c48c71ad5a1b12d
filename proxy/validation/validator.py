"""Whether a Produce request has to be judged at all, and by which rules: what a running sidecar asks first."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import Protocol

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.glance import glance_produce
from kafka_sidecar.proxy.config.loading import Config, ConfigError
from kafka_sidecar.proxy.nodes.topic_names import TopicNames
from kafka_sidecar.proxy.relay.acks import CLIENT_ID
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Passes
from kafka_sidecar.proxy.runtime.threads import in_thread
from kafka_sidecar.proxy.validation.from_config import rules
from kafka_sidecar.proxy.validation.produce import ProduceExchange, Surroundings
from kafka_sidecar.proxy.validation.resolving import Resolving
from kafka_sidecar.proxy.validation.rules import Rules, TopicConfig
from kafka_sidecar.proxy.validation.stats import Observed

NO_ID = bytes(16)
LONGEST_WAIT_S = 10.0  # for topic configs; producers give a request 30 s


def start(config: Config, topics: TopicNames, topic_configs: KeptConfigs | None = None) -> Validator:
    """The validator of a running sidecar. Raises ConfigError where a policy or a topic's string is wrong."""
    return Validator(config, Observed(time.time), topics, topic_configs)


class KeptConfigs(Protocol):
    """What is set on topics with Kafka's own tools."""

    @property
    def ready(self) -> bool:
        """Whether it is known here."""

    @property
    def trouble(self) -> str | None:
        """Why it is not."""

    async def wait_ready(self) -> None: ...

    def policy_of(self, topic: str, topic_id: bytes | None = None) -> str | None: ...


class Validator:
    """The rules in force. A request that has begun is judged by those that were in force then."""

    def __init__(
        self, config: Config, observed: Observed, topics: TopicNames, topic_configs: KeptConfigs | None
    ) -> None:
        self.observed = observed
        self._topic_configs = topic_configs
        self._around = Surroundings(
            topics.known, topics.ask, in_thread, Resolving().resolve, observed, config.validation.max_batch
        )
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Put the rules of a configuration in force. Raises ConfigError; the old rules stay then."""
        try:
            self.rules = rules(config, self.observed.policy_failed, self._topic_config())
        except ValueError as error:
            raise ConfigError(str(error)) from error
        self._around = replace(self._around, limit=config.validation.max_batch)

    def check(self, text: str) -> None:
        """Raises ValueError for a ``record.validation.policy`` that no policy understands."""
        self.rules.check(text)

    def _topic_config(self) -> TopicConfig | None:
        kept = self._topic_configs
        return (
            None if kept is None else lambda topic, topic_id: kept.policy_of(topic, topic_id if any(topic_id) else None)
        )

    def exchange(self, key: int, version: int) -> Begin | None:
        """Who takes Produce requests of this version in hand."""
        return partial(self._begin, version) if key == ApiKey.PRODUCE else None

    def _begin(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | Passes | None:
        in_force, kept = self.rules, self._topic_configs
        if kept is not None and not kept.ready:
            return ProduceExchange(in_force, replace(self._around, until_known=partial(_known, kept)), version)
        if in_force.are_empty:
            return None
        topics, end = glance_produce(data, at, size, version)
        if topics and not any(self._may_have_policy(in_force, topic) for topic in topics):
            # What holds may be set on the topic at any time, with Kafka's own tools; of several topics the records of
            # the first would have to be kept.
            return Passes(data[at + CLIENT_ID : end]) if kept is None and len(topics) == 1 else None
        return ProduceExchange(in_force, self._around, version)

    def _may_have_policy(self, in_force: Rules, topic: str | bytes) -> bool:
        """A request for topics without a policy need not be collected: its bytes pass as they come (design D1)."""
        name, topic_id = (self._around.name_of(topic), topic) if isinstance(topic, bytes) else (topic, NO_ID)
        try:
            return name is None or in_force.of(name, topic_id) is not None
        except ValueError:
            return True


async def _known(kept: KeptConfigs) -> str | None:
    """Wait until the configs of topics are known; why they are not, where it takes too long."""
    try:
        async with asyncio.timeout(LONGEST_WAIT_S):
            await kept.wait_ready()
    except TimeoutError:
        return kept.trouble
    return None
