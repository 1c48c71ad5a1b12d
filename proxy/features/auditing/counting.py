"""What the taps of all APIs share: one auditor for all connections of a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka_sidecar.audit.contract import AuditedClient, BatchAuditor, LargeMessages
from kafka_sidecar.proxy.features.auditing.copies import Copies, Copy
from kafka_sidecar.proxy.features.auditing.groups import Groups
from kafka_sidecar.proxy.features.auditing.stats import AuditingStats
from kafka_sidecar.proxy.features.auditing.topics import AuditedTopics

LATER = "(counted later)"  # in place of an API
MAX_DELAY_S = 0.1  # what a connection has to count waits no longer


class Counting:
    """How taps call the auditor."""

    def __init__(
        self,
        auditor: BatchAuditor,
        name_of: Callable[[bytes], str | None],
        is_audited: Callable[[str], bool],
        request_name: Callable[[bytes, Callable[[], None]], None],
        *,
        bucket_ms: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            auditor: is called for each batch.
            name_of: the name of a topic id, if it is known.
            is_audited: whether a topic is not excluded. The audit topic must be.
            request_name: begins to request the name of an id, and calls back when that has ended, in any way.
            bucket_ms: the auditor's buckets of event time: fetched batches that follow each other in one bucket, with
                the same latency within 2 %, are one call. 0: one call for each.
            clock: seconds since 1970.
        """
        self.stats = AuditingStats()
        self.topics = AuditedTopics(name_of, is_audited, request_name, self.stats)
        self.groups = Groups(clock)
        self.bucket_ms = bucket_ms
        self.clock = clock
        self.auditor = auditor
        self.call_later: Callable[[float, Callable[[], None]], object] | None = None  # seconds; None: count at once
        self._due: list[Callable[[], None]] = []
        self.copies = Copies(self._name_copy)

    def _name_copy(self, copy: Copy, is_certain: bool) -> None:
        batch = copy.batch
        rest = batch.partition, copy.event_time, batch.count, copy.base_offset, is_certain
        self.call("Produce", batch.key, named(self.auditor.duplicated, (copy.client,), rest))

    def count_later(self, count: Callable[[], None]) -> bool:
        """Have ``count`` called once, soon; False: it must be called now."""
        if self.call_later is None:
            return False
        if not self._due:
            self.call_later(MAX_DELAY_S, self.count_due)
        self._due.append(count)
        return True

    def count_due(self) -> None:
        """Count what was to be counted later."""
        due, self._due = self._due, []
        for count in due:
            try:
                count()
            except Exception as error:  # noqa: BLE001 - it must not keep the others from being counted
                self.stats.failed(LATER, error)

    def call(self, api: str, key: str | bytes, count: Callable[[str], None]) -> None:
        """Call the auditor with the name of an audited topic: now, or once the name of this id is known."""
        topic = self.topics.get(key)
        if topic is None:
            topic = self.topics.find(key, count)
        if topic is not None:
            try:
                count(topic)
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                self.stats.failed(api, error)


def large_messages(
    client: AuditedClient,
    group: str | None,
    batch: tuple[int, int, int, int],
    messages: tuple[tuple[int, int], ...],
    call: Callable[..., None],
    *rest: object,
) -> Callable[[str], None]:
    """For `Counting.call`: a call with the large messages of a batch (partition, timestamp, first and last offset)."""
    return lambda topic: call(LargeMessages(client, group, topic, *batch, messages), *rest)


def named(call: Callable[..., None], whose: tuple[Any, ...], rest: tuple[Any, ...]) -> Callable[[str], None]:
    """For `Counting.call`: a call with the topic's name between these arguments."""
    return lambda topic: call(*whose, topic, *rest)
