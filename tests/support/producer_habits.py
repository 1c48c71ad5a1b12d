"""Entries of `producers:` in a few words, and what has been reported of requests."""

from __future__ import annotations

from typing import Any

from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.proxy.config.producers import ProducerHabits
from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges
from kafka_sidecar.proxy.features.producer_habits.habits import Entries, Entry
from kafka_sidecar.proxy.features.producer_habits.producer_habits import HabitStats
from kafka_sidecar.proxy.features.producer_habits.stage import HabitsStage, HeadStage
from support.client import FakeClient, exchange_of
from support.driven import Driven
from support.produce_requests import batch, topic_id

NAMES = {topic_id(name): name for name in ("orders", "payments", "free")}


def habits(**settings: Any) -> ProducerHabits:
    return ProducerHabits.model_validate({"topics": ["orders"], **settings})


def entry(**settings: Any) -> Entry:
    return Entry(1, habits(**settings))


def sent(*values: str, **header: Any) -> Batch:
    """A batch as it came."""
    (one,) = batches(batch(*(values or ("one",)), **header))
    return one


class Asking:
    """A sidecar that asks for habits, whose time stands still."""

    def __init__(self, *entries: ProducerHabits) -> None:
        self.now = 0.0
        self.entries = Entries(entries)
        self.stats = HabitStats(lambda: self.now)
        stage = HabitsStage(self.entries, self.stats)
        head = HeadStage(self.entries, self.stats, stage, NAMES.get)
        self.exchanges = ProduceExchanges([stage], NAMES.get, guards=[head])

    def begin(self, version: int, frame: bytes, client: FakeClient | None = None) -> Any:
        return self.exchanges.begin(version, frame, 0, len(frame), client or FakeClient())

    def begun(self, version: int, frame: bytes, client: FakeClient | None = None) -> Driven | None:
        """What looks into a request."""
        exchange = exchange_of(self.begin(version, frame, client))
        return Driven(exchange) if exchange is not None else None

    def started(self, version: int, frame: bytes, client: FakeClient | None = None) -> Driven:
        exchange = self.begun(version, frame, client)
        assert exchange is not None
        return exchange
