"""Every metric of the sidecar, each of its samples with a value of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.interceptors.metrics import Histogram, Metric
from kafka_sidecar.proxy.config.rate_limits import RateLimit
from kafka_sidecar.proxy.config.sections import Tap
from kafka_sidecar.proxy.features.auditing.access import AccessAudit
from kafka_sidecar.proxy.features.auditing.audit import collect as of_audit
from kafka_sidecar.proxy.features.dead_letters.keeper import LetterStats
from kafka_sidecar.proxy.features.dead_letters.letters import DeadLetters
from kafka_sidecar.proxy.features.interception.interception import InterceptionStats
from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages
from kafka_sidecar.proxy.features.producer_habits.producer_habits import HabitStats
from kafka_sidecar.proxy.features.rate_limits.buckets import Bucket, Buckets
from kafka_sidecar.proxy.features.rate_limits.meter import Meter
from kafka_sidecar.proxy.features.schema_registries import families_of
from kafka_sidecar.proxy.features.topic_configs.configs import Changes, TopicConfigs
from kafka_sidecar.proxy.features.topic_guards.topic_guards import families_of_guards
from kafka_sidecar.proxy.features.validation.consume_stats import ConsumeStats
from kafka_sidecar.proxy.features.validation.stats import ValidationStats, durations_of
from kafka_sidecar.proxy.runtime.threads import Threads, Watchdog
from kafka_sidecar.proxy.security.sasl.client_logins import family_of_reloads
from kafka_sidecar.proxy.security.tls.live_tls import TlsStats, families_of_tls
from kafka_sidecar.proxy.server.admin.page import Refusals
from kafka_sidecar.proxy.server.admin.tap.streams import TapStreams
from kafka_sidecar.proxy.server.workers.supervisor import Supervisor
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate
from kafka_sidecar.proxy.telemetry.metrics import LATENCY_BUCKETS, Metrics
from kafka_sidecar.schemas.registry import RegistryStats
from support.client import FakeClient
from support.interception import Intercepting

NOW = 1_000_000.0


def all_metrics(*own: Metric) -> Metrics:
    """Those of one process, and of the supervisor of several; and these of an interceptor."""
    number = count(1)
    metrics = _engine(number)
    threads, rate = Threads(1), LogRate(1, lambda: 0.0)
    threads.waits = _durations(number)
    threads.waits_s = 0.25
    threads.time_limits["validation", "work"] = next(number)
    rate.total = next(number)
    watchdog = Watchdog(threads, lambda seconds: None)
    watchdog.stops["policy json"] = next(number)
    calls = Histogram()
    calls.add(100, next(number))
    metrics.features += [
        _validation(number).families,
        _consumers(count(601)).families,
        lambda: [durations_of({"json": calls})],
        watchdog.families,
        _producer_habits(count(601)).families,
        _interception(number, own).families,
        _large_messages(number).families,
        threads.families,
        rate.families,
        lambda: families_of([_schema_registry(count(501))]),
        _refusals().families,
        _taps().families,
        lambda: TopicConfigs.families(_topic_configs()),
        lambda: DeadLetters.families(_dead_letters(count(801))),
        lambda: families_of_guards({("CreateTopics", "partitions", "enforce"): 551}),
        lambda: _rate_limits().families(),
        lambda: of_audit(_audit()),
        lambda: AccessAudit.families(_access()),
        lambda: Supervisor.families(_supervisor()),
        lambda: families_of_tls([_side("client"), _side("admin")], NOW),
        lambda: [family_of_reloads({"users": 1, "token_keys": 0})],
    ]
    return metrics


MUTED = [FakeClient(muted_until=NOW + 1) for _ in range(7)]  # which the meter only has while they are there


def _rate_limits() -> Meter:
    meter = Meter(Buckets(), lambda: NOW, lambda topic_id: None)
    (limit,) = meter.load([RateLimit(name="shop", produce_bytes=1)])
    counts = limit.counts
    counts.produce_bytes, counts.consume_bytes, counts.throttled, counts.throttled_s, counts.rejected = range(561, 566)
    for key in range(1, 8, 2):
        Bucket(meter._buckets, key, 1.0, 1.0).take(1, NOW)
    meter._muted.update(MUTED)
    return meter


def _engine(number: count[int]) -> Metrics:
    metrics = Metrics()
    for key, name in ((0, "Produce"), (1, "Fetch")):
        api = metrics.api(key, name)
        api.requests, api.request_bytes = next(number) + 1000, next(number) + 1000
        api.responses, api.response_bytes = next(number) + 1000, next(number) + 1000
        api.answered, api.answered_bytes, api.rewritten_bytes = next(number), next(number), next(number)
        api.latency, api.latency_us = _durations(number), next(number)
        api.buffered, api.buffered_us = next(number), next(number)
        api.held, api.held_us = 3, 4
        api.held_durations, api.buffered_durations = _durations(count(41)), _durations(count(51))
    metrics.connections["bootstrap"] = next(number)
    metrics.active["bootstrap"] = next(number)
    metrics.disconnects["client_closed"] = next(number)
    metrics.connect_failures["connect_timeout"] = next(number)
    metrics.client_logins["success"] = next(number)
    metrics.broker_logins["failure"] = next(number)
    metrics.denied["Produce", "write", "topic"] = next(number)
    metrics.loop_delay, metrics.loop_delay_s = _durations(number), 0.5
    metrics.broker_listeners, metrics.cluster_reached = next(number), True
    metrics.buffered.bytes, metrics.buffered.pauses = next(number), next(number)
    metrics.record_reload(("listen",), NOW)
    return metrics


def _durations(number: count[int]) -> list[int]:
    found = [0] * LATENCY_BUCKETS
    for bits in (0, 10, 20, 40):
        found[bits] = next(number)
    return found


def _validation(number: count[int]) -> ValidationStats:
    stats = ValidationStats(lambda: NOW)
    stats.rejections["orders", "json", "enforce", "invalid"] = next(number)
    stats.failures["json", "shadow"] = next(number)
    stats.batches["contents"] = next(number)
    stats.records, stats.omitted_errors = next(number), next(number)
    return stats


def _consumers(number: count[int]) -> ConsumeStats:
    stats = ConsumeStats(ValidationStats(lambda: NOW))
    stats.rejections["orders", "json", "hide", "not_json"] = next(number)
    stats.batches["Fetch", "withheld"] = next(number)
    return stats


def _dead_letters(number: count[int]) -> Any:
    stats = LetterStats(lambda: NOW)
    stats.queued["orders.dlq"], stats.sent["orders.dlq"] = next(number), next(number)
    stats.dropped["rate"], stats.repeated = next(number), next(number)
    store = SimpleNamespace(
        dropped=Counter({"killed": next(number)}), letters=next(number), buffer=SimpleNamespace(bytes=next(number)),
        spool=SimpleNamespace(damaged=next(number)), bytes_on_disk=next(number),
        held=SimpleNamespace(letters=next(number)),
    )  # fmt: skip
    sender, lanes = SimpleNamespace(failures=next(number)), SimpleNamespace(count=next(number))
    return SimpleNamespace(
        stats=stats, store=store, sender=sender, lanes=lanes, oldest_s=next(number), missing={"a": "", "b": ""}
    )


def _producer_habits(number: count[int]) -> HabitStats:
    stats = HabitStats(lambda: NOW)
    stats.violations["orders", "acks", "enforce"] = next(number)
    stats.batches[4][-1] = next(number)
    stats.producers.forgotten = next(number)
    return stats


def _interception(number: count[int], own: Iterable[Metric]) -> InterceptionStats:
    interception = Intercepting("Commits")
    stats, (guard,) = interception.stats, interception.catalog.guards
    stats.guards = (guard,)
    stats.batches["Produce", "changed"] = next(number)
    stats.commits["dropped"] = next(number)
    guard.failures["on_send"] = next(number)
    guard.over_budget["on_send"] = next(number)
    guard.calls["on_send"] = durations = Histogram()
    durations.add(100, next(number))
    interception.interceptors[0].metrics = lambda: own
    return stats


def _large_messages(number: count[int]) -> LargeMessages:
    made = LargeMessages(lambda topic_id: None, lambda name: NO_ID)
    stats, assembly, cache = made.stats, made.assembly_stats, made.cache
    stats.split["split"] = next(number)
    stats.slices, stats.slice_bytes, stats.orphans = next(number), next(number), next(number)
    stats.stored_offsets["li"] = next(number)
    stats.reused_slices = next(number)
    stats.objects, stats.object_bytes = next(number), next(number)
    assembly.assembled, assembly.assembled_bytes, assembly.hidden = next(number), next(number), next(number)
    assembly.dropped["missing"] = next(number)
    assembly.withheld["damaged"] = next(number)
    assembly.reads, assembly.read_bytes, assembly.look_backs = next(number), next(number), next(number)
    assembly.refused_offsets["unread"], assembly.deletions["kept"] = next(number), next(number)
    cache.hits = next(number)
    return made


def _schema_registry(number: count[int]) -> Any:
    stats = RegistryStats(Counter(ok=next(number)), _durations(number), 0.5, next(number), next(number))
    settings = SimpleNamespace(name="main")
    return SimpleNamespace(settings=settings, stats=stats, cached=(next(number), next(number)), held_back=next(number))


def _taps() -> TapStreams:
    taps = TapStreams(lambda wanted, deliver: lambda: None, Tap)
    taps.counts.update(opened=901, lines=902)
    taps.lost.update(rate=903, slow_reader=904)
    taps._streams = dict.fromkeys(range(3))  # type: ignore[assignment,arg-type]
    return taps


def _refusals() -> Refusals:
    refusals = Refusals()
    refusals.counts["token"] = 44
    return refusals


def _topic_configs() -> Any:
    changes = Changes(["record.validation.policy"], lambda: 0.0)
    changes.stored["record.validation.policy"], changes.refused["invalid"] = 42, 43
    return SimpleNamespace(entries=(1, 2), trouble="no broker answers", lost=None, unreadable=41, changes=changes)


def _audit() -> Any:
    stats = SimpleNamespace(uncounted={("Produce", "unreadable"): 51}, unnamed=52)
    return SimpleNamespace(
        outbox=SimpleNamespace(discarded=53, intervals=54, events=55, bytes=56),
        sender=SimpleNamespace(sent=57, failures=58, in_flight=59, too_large=60),
        counting=SimpleNamespace(stats=stats),
    )


def _access() -> Any:
    events = SimpleNamespace(discarded={"too_many": 65}, bytes=66)
    return SimpleNamespace(events=events, sender=SimpleNamespace(sent=67, failures=68, too_large=69))


def _supervisor() -> Any:
    workers = [SimpleNamespace(is_serving=True), SimpleNamespace(is_serving=False)]
    return SimpleNamespace(workers=workers, restarts=Counter({1: 0, 2: 61}))


def _side(name: str) -> Any:
    stats = TlsStats()
    stats.succeeded(0.002)
    stats.failures["expired"] = 62
    return SimpleNamespace(side=name, stats=stats, loaded=SimpleNamespace(not_after={"certificate": NOW + 63}))
