"""Interception in a running sidecar: the interceptors that are current, and the stages in which they take part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kafka_sidecar.interceptors.catalog import InterceptorCatalog
from kafka_sidecar.interceptors.guard import Guard
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.exchanges.held_clients import HiddenOffsets
from kafka_sidecar.proxy.features.feature import Feature, Site, Stages
from kafka_sidecar.proxy.features.interception.consume_stage import (
    CommitStage,
    ConsumeStage,
    InterceptorFetch,
    ShareStage,
)
from kafka_sidecar.proxy.features.interception.from_config import catalog, describe_interceptors
from kafka_sidecar.proxy.features.interception.send_stage import SendStage
from kafka_sidecar.proxy.features.interception.services import Services
from kafka_sidecar.proxy.features.interception.stats import InterceptionStats
from kafka_sidecar.proxy.runtime.performer import Performer, PlugInFetches
from kafka_sidecar.proxy.telemetry.clock import now_ms
from kafka_sidecar.proxy.telemetry.logs import timestamp
from kafka_sidecar.proxy.telemetry.metrics import Family


class Interception(Feature):
    """The current interceptors. A request that has begun is intercepted by those that were current then."""

    def __init__(self, name_of: Callable[[bytes], str | None]) -> None:
        self.stats = InterceptionStats(time.monotonic)
        self.catalog = InterceptorCatalog((), self.stats)
        self._services = Services(
            name_of=name_of, report=self.stats, clock=now_ms, stopwatch=time.perf_counter, limit=0, message_max_bytes=0
        )
        self._fetches = PlugInFetches("interceptor")

    def register(self, performer: Performer) -> None:
        """Say how the needs of this feature are met."""
        performer.add(InterceptorFetch, lambda need: self._fetches.resolve(need.name, need.interceptor, need.key))

    def files(self) -> Iterable[Path]:
        return [file for guard in self.catalog.guards for file in guard.interceptor.files()]

    def load(self, config: Config) -> Callable[[], None]:
        """Load the interceptors of a configuration; what is returned applies them.

        Raises ConfigError where one is wrong.
        """
        try:
            new = catalog(config, self.stats, self.catalog)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return partial(self._apply, new, config)

    def _apply(self, new: InterceptorCatalog, config: Config) -> None:
        are_same = new.guards == self.catalog.guards
        self.catalog = new
        self.stats.guards = new.guards
        self._services = replace(
            self._services,
            limit=config.validation.max_batch,
            max_records=config.limits.max_records,
            message_max_bytes=config.interception.message_max_bytes,
            time_limit=TimeLimit("interception", config.interception.timeout, config.threads.max_wait),
            hold_for=tuple(config.interception.hold_for),
            hides_unreadable=config.interception.unreadable == "hide",
            # Others may hide other records.
            hidden_offsets=self._services.hidden_offsets if are_same else HiddenOffsets(),
        )

    async def shut_down(self, within_s: float = 0.0) -> None:
        """Close the interceptors in their order."""
        for guard in self.catalog.guards:
            guard.close()

    def state(self) -> Mapping[str, Any]:
        return {"interceptors": [_state(guard) for guard in self.catalog.guards]}

    def describe_topic(self, topic: str) -> list[dict[str, Any]]:
        """The interceptors of a topic, in order."""
        return describe_interceptors(self.catalog, topic)

    def families(self) -> Iterable[Family]:
        return self.stats.families()

    def stages(self) -> Stages:
        return Stages(
            produce=tuple(filter(None, (self.send_stage(),))),
            fetch=tuple(filter(None, (self.consume_stage(),))),
            acquired=tuple(filter(None, (self.share_stage(),))),
            commits=tuple(filter(None, (self.commit_stage(),))),
        )

    def send_stage(self) -> SendStage | None:
        """The part of the current interceptors in Produce requests, if they have one."""
        return SendStage(self.catalog.producers, self._services) if self.catalog.intercept_producers else None

    def consume_stage(self) -> ConsumeStage | None:
        """Their part in Fetch requests."""
        catalog = self.catalog
        return (
            ConsumeStage(catalog.consumers, catalog.fail_closed, self._services)
            if catalog.intercept_consumers
            else None
        )

    def share_stage(self) -> ShareStage | None:
        """Their part in ShareFetch requests."""
        return ShareStage(self.catalog.consumers, self._services) if self.catalog.intercept_consumers else None

    def commit_stage(self) -> CommitStage | None:
        """Their part in OffsetCommit and TxnOffsetCommit requests."""
        if not self.catalog.intercept_commits:
            return None
        return CommitStage(self.catalog.committers, self.stats.commits, self._services.time_limit)


def _state(guard: Guard) -> Mapping[str, Any]:
    now = guard.clock()
    off_s = guard.disabled_until - now
    return {
        "name": guard.name,
        "class": f"{type(guard.interceptor).__module__}:{type(guard.interceptor).__qualname__}",
        "topics": list(guard.topics),
        "disabled_until": timestamp(time.time() + off_s) if off_s > 0 else None,
        "disabled_for_clients": sum(row.until > now for row in list(guard.rows.values())),
    }


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    interception = Interception(site.topics.name_of)
    interception.register(site.performer)
    return interception
