"""How producers have to send, in a running sidecar: the entries that are applied, and violations of them.

Violations are counted, logged, and stored by ids that clients get too (design D12).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka_sidecar.codec.records import BatchHeader
from kafka_sidecar.plugins.patterns import covers
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.config.producers import CODECS
from kafka_sidecar.proxy.exchanges.repeated import Repeated, cut, explanation
from kafka_sidecar.proxy.features.feature import NO_STAGES, Feature, Rejections, Site, Stages
from kafka_sidecar.proxy.features.producer_habits.clients import ACKS, Key, Producers
from kafka_sidecar.proxy.features.producer_habits.habits import Entries, Entry, Fault, explain
from kafka_sidecar.proxy.features.producer_habits.stage import HabitsStage, HeadStage
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.logs import timestamp
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)

MAX_SERIES = 1000  # combinations of topic, habit and mode; further ones are counted as OTHER
OTHER = "(other)"
LOG_INTERVAL_S = 60.0  # for one client, topic, habits and mode
BY_HABITS = "(producers)"  # in place of a policy
REMEDY = (
    "Change the producer's configuration as the message says; `kafka-sidecar topics TOPIC` prints all that is required "
    "of the topic's producers, and `/producers` how each client sends. If the requirement is wrong for this client, "
    "add an entry for its principal before the one that applied, or set mode: shadow."
)


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


@dataclass(frozen=True, slots=True)
class Violation:
    """A set of habits in which one client differs from what a topic requires, seen once or more often."""

    id: str
    key: Key
    mode: str
    faults: tuple[Fault, ...]
    source: str  # the entry that applied
    since: float  # seconds since the epoch
    at: float  # the last time
    times: int  # batches
    # Of the last time:
    partition: int
    session: int
    client: str | None  # its address
    header: BatchHeader | None

    @property
    def habits(self) -> str:
        return ", ".join(fault.habit for fault in self.faults)


class HabitStats:
    """The counters of one process about producers' habits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock  # seconds since the epoch
        # (topic, habit, mode) -> batches; mode "shadow": they were allowed
        self.violations: Counter[tuple[str, str, str]] = Counter()
        self.batches = [[0] * len(ACKS) for _ in CODECS]  # by codec and `index_of` the acks
        self.producers = Producers()
        self.recent = Repeated[Violation](clock)
        # Whether a topic has series of its own whatever other names clients send.
        self.is_reserved: Callable[[str], bool] = lambda topic: False
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def families(self) -> Iterator[Family]:
        """The metrics."""
        yield counter(
            "producer_violations",
            "Batches of producers that do not send as required; in mode shadow: that were allowed; of habits that are "
            "averages: minutes",
            self.violations, "topic", "habit", "mode",
        )  # fmt: skip
        yield counter(
            "producer_batches", "Batches in topics for which producers are looked at, as they came", self._batches(),
            "compression", "acks",
        )  # fmt: skip
        yield counter(
            "forgotten_producers", "Clients that /producers no longer lists, because there were too many",
            self.producers.forgotten,
        )  # fmt: skip

    def _batches(self) -> dict[tuple[str, str], int]:
        return {
            (codec, acks): number
            for codec, numbers in zip(CODECS, self.batches, strict=True)
            for acks, number in zip(ACKS, numbers, strict=True)
            if number
        }

    def violated(
        self, key: Key, partition: int, faults: Sequence[Fault], enforced: bool, entry: Entry, client: Client,
        header: BatchHeader | None,
    ) -> str:  # fmt: skip
        """A batch was not sent as required. Returns the id, for the client."""
        mode = "enforce" if enforced else "shadow"
        found = self._store(key, partition, faults, mode, entry, client, header)
        kind = (mode, *map(str, key), found.habits)
        if (suppressed := self._lines.due(kind)) is not None:
            if enforced:
                log.warning("producer rejected", extra=keys_of(found, suppressed))
            else:
                log.warning("producer would be rejected", extra=keys_of(found, suppressed))
        return found.id

    def small_on_average(self, key: Key, faults: Sequence[Fault], entry: Entry, client: Client) -> None:
        """The batches of a minute were smaller than required, together."""
        found = self._store(key, -1, faults, "shadow", entry, client, None)
        if (suppressed := self._lines.due(("small", *map(str, key), found.habits))) is not None:
            log.warning("producer sends small batches", extra=keys_of(found, suppressed))

    def _store(
        self, key: Key, partition: int, faults: Sequence[Fault], mode: str, entry: Entry, client: Client,
        header: BatchHeader | None,
    ) -> Violation:  # fmt: skip
        topic, habits = key.topic, [str(fault.habit) for fault in faults]
        for habit in habits:
            self._count(topic, habit, mode)
        kind = (*map(str, key), mode, *habits)
        return self.recent.store(
            kind,
            lambda since, at, times: Violation(
                self.recent.id_of(*kind), key, mode, tuple(faults), entry.source, since, at, times, partition,
                client.number, client.host, header,
            ),
        )  # fmt: skip

    def _count(self, topic: str, habit: str, mode: str) -> None:
        key = (topic, habit, mode)
        if key not in self.violations and len(self.violations) >= MAX_SERIES:
            has_room = len(self.violations) < 2 * MAX_SERIES and self.is_reserved(topic)
            key = key if has_room else (OTHER, habit, mode)
        self.violations[key] += 1

    # As `feature.Rejections`

    @property
    def prefix(self) -> str:
        return self.recent.prefix

    def rows(self, number: int) -> Iterable[dict[str, Any]]:
        return map(_row, self.recent.newest(number))

    def explain(self, rejection_id: str) -> dict[str, Any] | None:
        if (found := self.recent.find(rejection_id)) is None:
            return None
        row, faults = _row(found), [cut(fault.of(found.key.topic)) for fault in found.faults]
        producer = {**row["producer"], "source": found.source, "faults": faults}
        return explanation(row, REMEDY, found.header, producer=producer)


def keys_of(found: Violation, suppressed: int) -> dict[str, object]:
    return {
        "rejection": found.id,
        "topic": found.key.topic,
        "partition": found.partition if found.partition >= 0 else None,
        "mode": found.mode,
        "reason": found.habits,
        "detail": explain(found.key.topic, found.faults),
        "principal": found.key.principal,
        "client": found.client,
        "client_id": found.key.client_id,
        "client_software": found.key.software,
        "session": found.session,
        "suppressed": suppressed,
    }


def _row(found: Violation) -> dict[str, Any]:
    """With the keys of a rejected batch, and its own."""
    is_rejected = found.mode == "enforce"
    return {
        "id": found.id,
        "timestamp": timestamp(found.at),
        "topic": found.key.topic,
        "partition": found.partition if found.partition >= 0 else None,
        "mode": found.mode,
        "policy": BY_HABITS,
        "reason": found.habits,
        "message": explain(found.key.topic, found.faults),
        "index": -1,
        "rejected_records": max(0, found.header.count) if found.header is not None and is_rejected else 0,
        "session": found.session,
        "client": found.client,
        "client_id": found.key.client_id,
        "producer": {
            "principal": found.key.principal,
            "software": found.key.software,
            "client": found.client,
            "habits": [str(fault.habit) for fault in found.faults],
            "times": found.times,
            "since": timestamp(found.since),
        },
        "outcome": "rejected" if is_rejected else "allowed",
        "client_software": found.key.software,
        "principal": found.key.principal,
    }


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """Patterns that RE2 does not accept, entries that can never apply."""
    earlier: list[tuple[str, int]] = []  # patterns of topics, and the entries that take all their producers
    for index, settings in enumerate(config.producers):
        try:
            Entry(index + 1, settings)
        except ValueError as error:
            yield Mistake(("producers", index, "client_id"), str(error))
        first = [next((at for wider, at in earlier if covers(wider, one)), None) for one in settings.topics]
        if None not in first:
            numbers = ", ".join(str(at) for at in sorted({at + 1 for at in first if at is not None}))
            yield Mistake(
                ("producers", index, "topics"),
                f"never applies: entry {numbers} matches all of these topics first; move this entry up, or remove it",
            )
        if not settings.principals:
            earlier += [(one, index) for one in settings.topics]
