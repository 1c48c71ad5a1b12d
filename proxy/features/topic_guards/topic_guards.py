"""Guards of topics: the stages of the current configuration, and what they have refused."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.patterns import covers, matches
from kafka_sidecar.plugins.regular_expressions import compile_pattern
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.config.topic_guards import TopicGuard
from kafka_sidecar.proxy.exchanges.messages import MessageStage
from kafka_sidecar.proxy.features import feature as features
from kafka_sidecar.proxy.features.denials import Denial, Denials, Source
from kafka_sidecar.proxy.features.feature import NO_STAGES, Feature, Stages
from kafka_sidecar.proxy.features.topic_guards.automatic import NamedTopicsRun, StreamsRun
from kafka_sidecar.proxy.features.topic_guards.guards import Guards
from kafka_sidecar.proxy.features.topic_guards.stages import Site, guard_topics
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)


def _write(denial: Denial, suppressed: int) -> None:
    log.warning(
        "topic guard",
        extra={
            "rejection": denial.id,
            "topic": denial.resource,
            "mode": denial.mode,
            "reason": denial.reason,
            "detail": denial.message,
            "operation": denial.operation,
            "api": denial.api,
            "principal": denial.principal,
            "session": denial.session,
            "client": denial.client,
            "client_id": denial.client_id,
            "suppressed": suppressed,
        },
    )


SOURCE = Source(
    "(topic guards)",
    "Ask for a topic that complies: the message says what is allowed. If the guard is wrong, change its entry of "
    "topic_guards, or put one before it for this topic or principal; with mode shadow it only counts and logs.",
    attrgetter("reason", "mode"),
    _write,
)


class TopicGuards(Feature):
    """What clients may ask for when they create, alter and delete topics."""

    denials: Denials

    def __init__(self, site: features.Site) -> None:
        self._site = site
        self._counts: Counter[tuple[str, str, str]] = Counter()  # by API, rule and mode
        self.denials = Denials(self._counts, time.time, source=SOURCE)
        self._current: Site | None = None

    def load(self, config: Config) -> Callable[[], None]:
        try:
            guards = Guards(config.topic_guards)
        except ValueError as error:
            raise ConfigError(f"topic_guards: {error}") from error
        return partial(self._apply, guards)

    def _apply(self, guards: Guards) -> None:
        topics = self._site.topics
        self._current = Site(
            guards, self._own_configs, topics.name_of, lambda name: topics.id_of(name) != NO_ID, self.denials
        )

    def _own_configs(self) -> Collection[str]:
        return self._site.policies.own if self._site.policies is not None else ()

    def stages(self) -> Stages:
        site = self._current
        if site is None or not site.guards.entries:
            return NO_STAGES
        # An API is looked into where an entry says something about it.
        wanted = {
            ApiKey.CREATE_TOPICS: site.guards.any(lambda guard: guard.limits_creation),
            ApiKey.CREATE_PARTITIONS: site.guards.any(lambda guard: guard.partitions.high is not None),
            ApiKey.ALTER_CONFIGS: site.guards.any(lambda guard: guard.limits_configs),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: site.guards.any(lambda guard: guard.limits_configs),
            ApiKey.DELETE_TOPICS: site.guards.any(lambda guard: not guard.may_delete),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: site.guards.any(lambda guard: guard.replication_factor.is_set),
        }
        stages: dict[int, MessageStage] = {
            key: guard_topics(key, site) for key, is_wanted in wanted.items() if is_wanted
        }
        if site.guards.any(lambda guard: guard.limits_automatic_creation):
            stages[ApiKey.METADATA] = partial(NamedTopicsRun, site)
        if site.guards.any(lambda guard: guard.limits_creation):
            stages[ApiKey.STREAMS_GROUP_HEARTBEAT] = partial(StreamsRun, site)
        return Stages(messages=stages)

    def families(self) -> Iterable[Family]:
        return families_of_guards(self._counts)

    def topic_state(self, name: str) -> Mapping[str, Any]:
        guards = self._current.guards if self._current is not None else None
        found = [entry.described for entry in guards.entries if matches(name, entry.topics)] if guards else []
        return {"guards": found} if found else {}


def families_of_guards(counts: Mapping[tuple[str, str, str], int]) -> Iterable[Family]:
    """Their metrics: by API, rule and mode."""
    about = "Topics of requests that violated a guard"
    yield counter("topic_guard_violations", about, dict(counts), "api_key", "rule", "mode")


def feature(site: features.Site) -> Feature:
    """As `compose.FEATURES` says."""
    return TopicGuards(site)


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """Patterns that are invalid, and entries that an earlier one covers."""
    for index, entry in enumerate(config.topic_guards):
        if entry.naming is not None:
            try:
                compile_pattern(entry.naming)
            except ValueError as error:
                yield Mistake(("topic_guards", index, "naming"), str(error))
        earlier = next((at for at, other in enumerate(config.topic_guards[:index]) if _hides(other, entry)), None)
        if earlier is not None:
            why = f"entry {earlier + 1} matches all of its topics and principals first"
            yield Mistake(("topic_guards", index), f"never applies: {why}; remove one, or put this one first")


def _hides(earlier: TopicGuard, later: TopicGuard) -> bool:
    return _cover(earlier.topics, later.topics) and _cover(earlier.principals, later.principals)


def _cover(wider: Sequence[str], narrower: Sequence[str]) -> bool:
    return all(any(covers(one, other) for one in wider) for other in narrower)
