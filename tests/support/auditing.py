"""An auditor that remembers its calls, and the taps that call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_sidecar.audit.contract import AuditedClient, BatchAuditor, LargeMessages, Result
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.features.auditing.audit import tap
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.relay.exchange import Begin
from kafka_sidecar.proxy.relay.watch import Tap
from support.dialogue import Dialogue

NOW_MS = 1_700_000_000_000


class Calls(BatchAuditor):
    """The calls, without the client: (topic, partition, ...) and what a batch has, in the order of these methods."""

    def __init__(self) -> None:
        self.produced_: list[tuple[Any, ...]] = []
        self.duplicated_: list[tuple[Any, ...]] = []
        self.delivered_: list[tuple[Any, ...]] = []
        self.committed_: list[tuple[Any, ...]] = []
        self.acquired_: list[tuple[Any, ...]] = []
        self.accepted_: list[tuple[Any, ...]] = []
        self.large_: list[LargeMessages] = []
        self.large_of: list[tuple[object, int]] = []  # result or deliveries, and how many calls were before
        self.clients: list[AuditedClient] = []
        self.fails = False

    def produced(self, client: AuditedClient, topic: str, partition: int, batch: BatchCount) -> None:
        self.clients.append(client)
        if self.fails:
            raise RuntimeError("the auditor is broken")
        self.produced_.append(
            (topic, partition, batch.timestamp, batch.count, batch.size, batch.result, batch.first_offset,
             batch.latency_s)
        )  # fmt: skip
        assert batch.last_offset == (batch.first_offset + batch.count - 1 if batch.first_offset >= 0 else -1)

    def duplicated(
        self, client: AuditedClient, topic: str, partition: int, batch: BatchCount, is_certain: bool
    ) -> None:
        self.duplicated_.append((topic, partition, batch.timestamp, batch.count, batch.first_offset, is_certain))

    def delivered(
        self, client: AuditedClient, group: str | None, topic: str, partition: int, batch: BatchCount
    ) -> None:
        if self.fails:
            raise RuntimeError("the auditor is broken")
        self.clients.append(client)
        self.delivered_.append(
            (group, topic, partition, batch.timestamp, batch.count, batch.size, batch.first_offset, batch.last_offset,
             batch.latency_s, batch.hidden, batch.aborted)
        )  # fmt: skip

    def committed(self, client: AuditedClient, *rest: Any) -> None:
        if self.fails:
            raise RuntimeError("the auditor is broken")
        self.clients.append(client)
        self.committed_.append(rest)

    def acquired(self, client: AuditedClient, group: str, topic: str, partition: int, batch: BatchCount) -> None:
        if self.fails:
            raise RuntimeError("the auditor is broken")
        self.clients.append(client)
        self.acquired_.append(
            (group, topic, partition, batch.timestamp, batch.count, batch.size, batch.first_offset, batch.last_offset,
             batch.latency_s, batch.deliveries, batch.hidden)
        )  # fmt: skip

    def accepted(self, client: AuditedClient, *rest: Any) -> None:
        if self.fails:
            raise RuntimeError("the auditor is broken")
        self.accepted_.append(rest)

    def produced_large(self, large: LargeMessages, result: Result) -> None:
        self.large_.append(large)
        self.large_of.append((result, len(self.produced_)))

    def delivered_large(self, large: LargeMessages) -> None:
        self.large_.append(large)
        self.large_of.append((None, len(self.delivered_)))

    def acquired_large(self, large: LargeMessages, deliveries: int) -> None:
        self.large_.append(large)
        self.large_of.append((deliveries, len(self.acquired_)))

    @property
    def large(self) -> list[tuple[object, ...]]:
        """Topic, partition, offsets and messages; the result or deliveries; which batch's call follows."""
        return [
            (one.topic, one.partition, one.first_offset, one.last_offset, one.messages, *more)
            for one, more in zip(self.large_, self.large_of, strict=True)
        ]

    @property
    def results(self) -> list[tuple[str, int, int, Result, int]]:
        """(topic, partition, records, result, base offset) of what was produced."""
        return [(topic, index, count, result, base) for topic, index, _, count, _, result, base, _ in self.produced_]


class Audited:
    """A dialogue that is audited."""

    def __init__(
        self,
        exchange: Callable[[int, int], Begin | None] = lambda key, version: None,
        excluded: tuple[str, ...] = (),
        bucket_ms: int = 0,
        counts_later: bool = False,
        id_of: Callable[[str], bytes] = lambda name: NO_ID,
    ) -> None:
        self.calls = Calls()
        self._exchange = exchange
        self.requested: list[tuple[bytes, Callable[[], None]]] = []
        self.dialogue = Dialogue(exchange=exchange, tap=self._tap)
        self.counting = Counting(
            self.calls,
            self.dialogue.topics.name_of,
            lambda topic: topic not in excluded,
            lambda topic_id, done: self.requested.append((topic_id, done)),
            id_of=id_of,
            bucket_ms=bucket_ms,
            clock=lambda: NOW_MS / 1000,
        )
        self.timers: list[Callable[[], None]] = []
        if counts_later:
            self.counting.call_later = lambda delay_s, count: self.timers.append(count)

    def another(self) -> Dialogue:
        """Another connection of the same client."""
        return Dialogue(exchange=self._exchange, tap=self._tap)

    def wait(self) -> None:
        """Until all timers have run."""
        while self.timers:
            self.timers.pop()()

    def _tap(self, key: int, version: int) -> Tap | None:
        return tap(self.counting, key, version)
