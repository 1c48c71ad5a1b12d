"""li's `LoggingAuditor`: writes to the log what was counted, a line for each topic, bucket and type.

In li each client has its own auditor, so that a producer's lines are not a consumer's. Here records that clients were
sent have a type of their own.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from kafka_sidecar.audit.abstract import AbstractAuditor
from kafka_sidecar.audit.contract import AuditedClient, AuditType
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.audit.counting import AuditKey, CountingAuditStats

log = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DELIVERED = AuditType("DELIVERED")


class LoggingAuditor(AbstractAuditor):
    """``[start of the bucket - its end] : (topic,bucket,TYPE), (N messages, B bytes)``."""

    def create_audit_stats(self) -> CountingAuditStats:
        return CountingAuditStats(self.settings.bucket_ms)

    def get_audit_key(
        self,
        token: object | None,
        topic: str,
        timestamp: int | None,
        message_count: int,
        bytes_count: int,
        audit_type: AuditType,
    ) -> AuditKey:
        bucket = None if timestamp is None else timestamp // self.settings.bucket_ms
        return AuditKey(topic, bucket, audit_type)

    def delivered(
        self, client: AuditedClient, group: str | None, topic: str, partition: int, batch: BatchCount
    ) -> None:
        self.record_read(topic, batch, DELIVERED)

    def acquired(self, client: AuditedClient, group: str, topic: str, partition: int, batch: BatchCount) -> None:
        self.record_read(topic, batch, DELIVERED)

    def on_tick(self, last_stats: CountingAuditStats) -> None:
        for line in lines(last_stats):
            log.info(line)

    def on_closed(
        self, current_stats: CountingAuditStats, next_stats: CountingAuditStats, remaining_s: float | None
    ) -> None:
        self.on_tick(current_stats)
        self.on_tick(next_stats)


def lines(stats: CountingAuditStats) -> list[str]:
    """A line for each key.

    >>> stats = CountingAuditStats(600_000)
    >>> stats.update(AuditKey("orders", 2, AuditType.SUCCESS), 5, 300)
    True
    >>> lines(stats)
    ['[1970-01-01T00:20:00Z - 1970-01-01T00:30:00Z] : (orders,2,SUCCESS), (5 messages, 300 bytes)']
    """
    return [
        f"[{_date(key.bucket, stats.bucket_ms)} - {_date(key.bucket, stats.bucket_ms, 1)}] : {key}, {counts}"
        for key, counts in stats.counts.items()
        if isinstance(key, AuditKey)
    ]


def _date(bucket: int | None, bucket_ms: int, after: int = 0) -> str:
    if bucket is None:
        return "no timestamp"
    try:
        date = EPOCH + timedelta(milliseconds=(bucket + after) * bucket_ms)
    except OverflowError:
        return f"{(bucket + after) * bucket_ms} ms"
    return date.isoformat(timespec="seconds").replace("+00:00", "Z")
