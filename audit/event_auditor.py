"""The default auditor: what it counts in an interval becomes events of audit/event.schema.json."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from pydantic import Field

from kafka_sidecar.audit.abstract import AbstractAuditor, AuditorSettings
from kafka_sidecar.audit.contract import AuditedClient, AuditType, LargeMessages, Result
from kafka_sidecar.audit.counters import BatchCount, FetchCounter, ProduceCounter
from kafka_sidecar.audit.event_counters import DeliveredEvents, EventCounting, EventStats, ProducedEvents
from kafka_sidecar.audit.events import Emitter, Interval, interval_events
from kafka_sidecar.plugins.clock import now_ms


class EventSettings(AuditorSettings):
    """With the bound on keys."""

    max_keys: int = Field(default=10_000, ge=1)
    """Keys of an interval (client, topic, partition, bucket) above which further clients are counted as (other)."""


class EventAuditor(AbstractAuditor):
    """Counts batches. An event of interval 0 is emitted at once, so that it is known whose counts are to be expected.

    li's `record` counts nothing here: it names no partition.
    """

    settings = EventSettings()

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        super().__init__(clock)
        self.emit: Callable[[Interval], None] = lambda interval: None
        """Where the events go. Set it before `start`; it is called in the auditor's thread."""
        self._counting = EventCounting(clock)
        self.counting = self._counting.lock
        self._emitter = Emitter("", 0)
        self._number = 0
        self._interval_start = 0

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        settings = self.settings
        self._emitter = Emitter(settings.emitter_id, self.clock(), settings.cluster, settings.dc, settings.app)

    def start(self) -> None:
        if self._number:
            return
        self._interval_start = self._emitter.epoch
        self._emit((), self.clock())
        super().start()
        self._counting.use(self.intervals)

    def produce_counter(self, client: AuditedClient, topic: str, partition: int) -> ProduceCounter:
        return ProducedEvents(self._counting, client, topic, partition)

    def fetch_counter(self, client: AuditedClient, group: str | None, topic: str, partition: int) -> FetchCounter:
        return DeliveredEvents(self._counting, client, group, topic, partition)

    def produced(self, client: AuditedClient, topic: str, partition: int, batch: BatchCount) -> None:
        with self.counting:
            self.produce_counter(client, topic, partition).count(batch)

    def duplicated(
        self, client: AuditedClient, topic: str, partition: int, batch: BatchCount, is_certain: bool
    ) -> None:
        self._counting.duplicated(client, topic, partition, batch, is_certain)

    def delivered(
        self, client: AuditedClient, group: str | None, topic: str, partition: int, batch: BatchCount
    ) -> None:
        with self.counting:
            self.fetch_counter(client, group, topic, partition).count(batch)

    def committed(self, client: AuditedClient, group: str, topic: str, partition: int, offset: int) -> None:
        self._counting.committed(client, group, topic, partition, offset)

    def acquired(self, client: AuditedClient, group: str, topic: str, partition: int, batch: BatchCount) -> None:
        self._counting.acquired(client, group, topic, partition, batch)

    def accepted(
        self, client: AuditedClient, group: str, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> None:
        self._counting.accepted(client, group, topic, partition, first_offset, last_offset)

    def produced_large(self, large: LargeMessages, result: Result) -> None:
        self._counting.count_large(large, result, 0)

    def delivered_large(self, large: LargeMessages) -> None:
        self._counting.count_large(large, None, 0)

    def acquired_large(self, large: LargeMessages, deliveries: int) -> None:
        self._counting.count_large(large, None, deliveries)

    def get_audit_key(
        self,
        token: object | None,
        topic: str,
        timestamp: int | None,
        message_count: int,
        bytes_count: int,
        audit_type: AuditType,
    ) -> Hashable | None:
        return None

    def create_audit_stats(self) -> EventStats:
        return EventStats(self.settings.bucket_ms, self.settings.max_keys)

    def tick_and_get_stats(self) -> Any:
        last = super().tick_and_get_stats()
        self._counting.use(self.intervals)
        return last

    def on_tick(self, last_stats: EventStats) -> None:
        self._emit((last_stats,), min(self.clock(), self.intervals.next_tick - self.settings.interval_ms))

    def on_closed(self, current_stats: EventStats, next_stats: EventStats, remaining_s: float | None) -> None:
        self._counting.use(None)
        self._emit((current_stats, next_stats), self.clock(), is_closing=True)

    def _emit(self, stats: tuple[EventStats, ...], end: int, is_closing: bool = False) -> None:
        start = self._interval_start
        self._interval_start = end = max(start, end)  # the clock may have been set back
        number, self._number = self._number, self._number + 1
        self.emit(interval_events(self._emitter, number, stats, start, end, self.clock(), is_closing))
