"""How producers have to send, in a running sidecar: the entries of the configuration that is applied."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.feature import NO_STAGES, Feature, Rejections, Site, Stages
from kafka_sidecar.proxy.features.producer_habits.habits import Entries
from kafka_sidecar.proxy.features.producer_habits.stage import HabitsStage, HeadStage
from kafka_sidecar.proxy.features.producer_habits.stats import HabitStats
from kafka_sidecar.proxy.telemetry.logs import timestamp
from kafka_sidecar.proxy.telemetry.metrics import Family


class ProducerHabitsFeature(Feature):
    """The current entries. A request that has begun is looked at by those that were current then."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.entries = Entries([])
        self.stats = HabitStats(time.time)

    def load(self, config: Config) -> Callable[[], None]:
        try:
            return partial(self._apply, Entries(config.producers))
        except ValueError as error:
            raise ConfigError(f"producers: {error}") from error

    def _apply(self, entries: Entries) -> None:
        self.entries = entries
        named = {topic for entry in entries.entries for topic in entry.settings.topics}
        self.stats.is_reserved = named.__contains__

    def stages(self) -> Stages:
        if self.entries.are_empty:
            return NO_STAGES
        stage = HabitsStage(self.entries, self.stats)
        head = HeadStage(self.entries, self.stats, stage, self._site.topics.name_of)
        return Stages(produce_checks=(stage,), produce_guard=head)

    def families(self) -> Iterable[Family]:
        return self.stats.families()

    def describe_topic(self, topic: str) -> list[dict[str, Any]]:
        """What is required of its producers, in the order in which their principals are looked for."""
        return [entry.describe() for entry in self.entries.of_topic(topic)]

    def topic_state(self, name: str) -> Mapping[str, Any]:
        found = [entry.described for entry in self.entries.of_topic(name)]
        return {"habits": found} if found else {}

    def list_producers(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Those that have sent last, newest first; of these topics, client ids or principals."""
        producers = self.stats.producers
        found = producers.newest(wanted)
        return {
            "known": len(producers),
            "forgotten": producers.forgotten,
            "producers": [one.describe(timestamp) for one in found],
        }

    def rejections(self) -> Rejections:
        return self.stats


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    return ProducerHabitsFeature(site)
