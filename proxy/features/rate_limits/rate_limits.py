"""The rate limits of a sidecar: loaded, applied to requests, counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.feature import NO_STAGES, Feature, Site, Stages
from kafka_sidecar.proxy.features.rate_limits.buckets import Buckets
from kafka_sidecar.proxy.features.rate_limits.meter import Meter
from kafka_sidecar.proxy.features.rate_limits.taps import tap
from kafka_sidecar.proxy.features.rate_limits.waiting import Delay, WaitingLine, line_up
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Client, Gate
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.telemetry.metrics import Family

MAX_REQUESTED = 100  # names of topics that are asked for at a time


class RateLimits(Feature):
    """The limits of one process, whose buckets all workers have in common."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.perf_counter) -> None:
        """``clock``: that of the sessions; on Linux it is the same in all processes."""
        self._names = site.topics
        self._requested: set[bytes] = set()
        worker = site.config.worker
        self.meter = Meter(
            Buckets(worker.shared), clock, site.topics.name_of, self._request_name, shows_buckets=worker.number == 1
        )
        line_up(self.meter)
        site.performer.add(Delay, _wait)

    def load(self, config: Config) -> Callable[[], None]:
        rules = self.meter.load(config.rate_limits)

        def use() -> None:
            self.meter.rules = rules

        return use

    def gate(self, client: Client) -> Gate | None:
        return WaitingLine(self.meter, client) if any(not limit.rejects for limit in self.meter.rules) else None

    def stages(self) -> Stages:
        rejecting = [limit for limit in self.meter.rules if limit.rejects]
        if not rejecting:
            return NO_STAGES
        from kafka_sidecar.proxy.features.rate_limits.reject_stage import RejectStage

        return Stages(produce_checks=[RejectStage(rejecting, self.meter.admit)])

    def tap(self, key: int, version: int) -> Tap | None:
        return tap(self.meter, key, version)

    def families(self) -> Iterable[Family]:
        return self.meter.families()

    def state(self) -> Mapping[str, Any]:
        return {"limits": self.meter.describe()}

    def topic_state(self, name: str) -> Mapping[str, Any]:
        found = [limit.name for limit in self.meter.rules if limit.counts_topic(name)]
        return {"rate limits": found} if found else {}

    def _request_name(self, topic_id: bytes) -> None:
        if topic_id not in self._requested and len(self._requested) < MAX_REQUESTED:
            self._requested.add(topic_id)
            spawn(_learn_name(self._names, topic_id, self._requested), "request the name of a limited topic")


async def _wait(need: Delay) -> None:
    await asyncio.sleep(need.seconds)


async def _learn_name(names: TopicNameCache, topic_id: bytes, requested: set[bytes]) -> None:
    try:
        with suppress(OSError, CodecError):
            await names.resolve([topic_id])
    finally:
        requested.discard(topic_id)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    return RateLimits(site)
