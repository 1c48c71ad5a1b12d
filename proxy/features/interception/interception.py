"""Interception in a running sidecar: the interceptors that are current, and the stages in which they take part."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kafka_sidecar.interceptors.catalog import InterceptorCatalog
from kafka_sidecar.interceptors.guard import Client, Guard, Place, Report
from kafka_sidecar.interceptors.metrics import Histogram, Metric, escape_surrogates
from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.clock import now_ms
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
from kafka_sidecar.proxy.features.interception.send_stage import SendStage, Services
from kafka_sidecar.proxy.runtime.performer import Performer, PlugInFetches
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, redact_error
from kafka_sidecar.proxy.telemetry.logs import timestamp
from kafka_sidecar.proxy.telemetry.metrics import Durations, Family, counter, gauge, histogram

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0  # for one interceptor, hook and kind of failure
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")  # of a metric or label


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
        catalog, services = self.catalog, self._services
        sends, consumes, commits = catalog.intercept_producers, catalog.intercept_consumers, catalog.intercept_commits
        return Stages(
            produce=(SendStage(catalog.producers, services),) if sends else (),
            fetch=(ConsumeStage(catalog.consumers, catalog.fail_closed, services),) if consumes else (),
            acquired=(ShareStage(catalog.consumers, services),) if consumes else (),
            commits=(CommitStage(catalog.committers, self.stats.commits, services.time_limit),) if commits else (),
        )


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


@dataclass(slots=True)
class InterceptionStats(Report):
    """The counters of one process about interception."""

    clock: Callable[[], float]  # seconds
    guards: tuple[Guard, ...] = ()  # of the applied interceptors
    # (API, result) -> batches: "unchanged", "changed", "dropped", or the reason why it was not intercepted
    batches: Counter[tuple[str, str]] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)  # by the result for a partition's offset
    _lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def families(self) -> Iterator[Family]:
        """All metrics of interception."""
        yield counter("intercepted_batches", "Batches of topics with interceptors", self.batches, "api_key", "result")
        yield counter("intercepted_offsets", "Offsets of commits that interceptors have seen", self.commits, "result")
        yield from _of_guards(self.guards)
        yield from self._own()

    @calls_plug_in(lambda of: Call("interceptor", of["guard"].name, "metrics"))
    def _own(self) -> Iterator[Family]:
        """The families of the interceptors themselves; several interceptors of one type share a family."""
        families: dict[str, Family] = {}
        for guard in self.guards:
            try:
                for metric in guard.interceptor.metrics():
                    for family in _of_interceptor(metric, guard.name):
                        _add(families, family)
            except BaseException as error:  # noqa: BLE001 - /metrics must not break for one of them
                self.failed(guard.name, "metrics", error)
        yield from families.values()

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        if (suppressed := self._lines.due(("interceptor failed", interceptor, hook, type(error).__name__))) is not None:
            log.warning(
                "interceptor failed",
                exc_info=redact_error(error),
                extra={
                    "interceptor": interceptor,
                    "hook": hook,
                    "topic": place.topic if place else None,
                    "partition": place.partition if place else None,
                    "suppressed": suppressed,
                },
            )

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None:
        if (suppressed := self._lines.due(("interceptor over budget", interceptor, hook))) is not None:
            log.warning(
                "interceptor over budget",
                extra={
                    "interceptor": interceptor,
                    "hook": hook,
                    "topic": place.topic if place else None,
                    "partition": place.partition if place else None,
                    "duration_s": round(seconds, 3),
                    "suppressed": suppressed,
                },
            )

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: Client | None = None) -> None:
        host, principal = client or (None, None)
        if client is None:
            log.error(
                "interceptor disabled", extra={"interceptor": interceptor, "failures": failures, "pause_s": pause_s}
            )
        elif (suppressed := self._lines.due((interceptor, "(disabled)", host or "", principal or ""))) is not None:
            log.error(
                "interceptor disabled for a client",
                extra={
                    "interceptor": interceptor,
                    "failures": failures,
                    "pause_s": pause_s,
                    "client": host,
                    "principal": principal,
                    "suppressed": suppressed,
                },
            )

    def skipped(self, api: str, reason: str, topic: str) -> None:
        """A batch of a topic with interceptors is forwarded unchanged, or withheld with all that follows."""
        self.batches[api, reason] += 1
        if (suppressed := self._lines.due(("batch not intercepted", api, reason))) is not None:
            log.warning(
                "batch not intercepted",
                extra={"api": api, "reason": reason, "topic": topic, "suppressed": suppressed},
            )

    def hidden(self, api: str, reason: str, topic: str) -> None:
        """A batch that cannot be intercepted is hidden from consumers."""
        self.batches[api, f"hidden_{reason}"] += 1
        if (suppressed := self._lines.due(("unreadable batch hidden", api, reason))) is not None:
            log.warning(
                "unreadable batch hidden",
                extra={"api": api, "reason": reason, "topic": topic, "suppressed": suppressed},
            )


def _of_guards(guards: tuple[Guard, ...]) -> Iterator[Family]:
    failures = {(guard.name, hook): number for guard in guards for hook, number in list(guard.failures.items())}
    slow = {(guard.name, hook): number for guard in guards for hook, number in list(guard.over_budget.items())}
    calls = {(guard.name, hook): _durations(calls) for guard in guards for hook, calls in list(guard.calls.items())}
    disabled = {guard.name: int(guard.is_disabled) for guard in guards}
    hook = "interceptor", "hook"
    yield counter("interceptor_failures", "Failed calls of an interceptor", failures, *hook)
    yield counter("interceptor_over_budget", "Calls that took longer than their budget", slow, *hook)
    yield histogram("interceptor_call_seconds", "Duration of one call", calls, *hook)
    yield gauge("interceptor_disabled", "1 while an interceptor is disabled after failures", disabled, "interceptor")


def _of_interceptor(metric: Metric, interceptor: str) -> Iterator[Family]:
    """Raises if the metric is invalid: rendering it would fail for all metrics."""
    if not isinstance(metric.about, str) or not all(map(NAME.fullmatch, (metric.name, *metric.labels))):
        raise TypeError(f"the metric {metric.name} has an invalid name, label or description")
    kinds: dict[Literal["counter", "gauge", "histogram"], Any] = {
        "counter": metric.counters, "gauge": metric.gauges, "histogram": metric.histograms,
    }  # fmt: skip
    for kind, values in kinds.items():
        samples = {}
        for of, value in list(values.items()):
            if len(of) != len(metric.labels):
                raise ValueError(f"{metric.name} has {len(metric.labels)} labels, and a sample with {len(of)}")
            labels = interceptor, *(escape_surrogates(str(one)) for one in of)
            samples[labels] = _durations(value) if kind == "histogram" else float(value)
        if samples:
            yield Family(kind, metric.name, metric.about, ("interceptor", *metric.labels), samples)


def _add(families: dict[str, Family], family: Family) -> None:
    known = families.setdefault(family.name, family)
    if (known.kind, known.labels) != (family.kind, family.labels):
        raise ValueError(f"the labels or the kind of {family.name} differ")
    families[family.name] = replace(known, samples={**known.samples, **family.samples})


def _durations(histogram: Histogram) -> Durations:
    return Durations(tuple(map(int, histogram.counts)), histogram.total_us / 1e6)
