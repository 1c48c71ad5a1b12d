"""The lines of the logging auditor."""

from __future__ import annotations

import logging

import pytest
from support.clock import Clock

from kafka_sidecar.audit.contract import AuditedClient, AuditType, Result
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.audit.counting import AuditKey, CountingAuditStats
from kafka_sidecar.audit.logging_auditor import LoggingAuditor, lines


def test_a_line_for_each_key_is_written_at_a_tick_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    auditor = LoggingAuditor(Clock())
    auditor.configure({"auditor.bucket.ms": 60_000, "enable.auto.tick": False})
    auditor.start()
    with caplog.at_level(logging.INFO, "kafka_sidecar.audit"):
        auditor.record(None, "orders", 61_000, 2, 50, AuditType.ATTEMPT)
        auditor.tick()
        auditor.record(None, "orders", 61_000, 3, 70, AuditType.SUCCESS)
        auditor.record(None, "orders", None, 1, 5, AuditType.FAILURE)
        auditor.close()
    assert [record.getMessage() for record in caplog.records] == [
        "[1970-01-01T00:01:00Z - 1970-01-01T00:02:00Z] : (orders,1,ATTEMPT), (2 messages, 50 bytes)",
        "[1970-01-01T00:01:00Z - 1970-01-01T00:02:00Z] : (orders,1,SUCCESS), (3 messages, 70 bytes)",
        "[no timestamp - no timestamp] : (orders,None,FAILURE), (1 messages, 5 bytes)",
    ]


def test_a_timestamp_beyond_all_dates_is_written_as_a_number() -> None:
    stats = CountingAuditStats(1000)
    stats.update(AuditKey("t", 1 << 55, AuditType.SUCCESS), 1, 1)
    assert lines(stats)[0].startswith(f"[{(1 << 55) * 1000} ms - ")


def test_what_was_acknowledged_and_what_was_read_are_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    auditor, client = LoggingAuditor(Clock()), AuditedClient("app", None, None)
    auditor.configure({"auditor.bucket.ms": 60_000, "enable.auto.tick": False})
    auditor.start()
    auditor.produced(client, "orders", 0, BatchCount(61_000, 3, 70, result=Result.ACKED, first_offset=0))
    auditor.delivered(client, "billing", "orders", 0, BatchCount(61_000, 3, 70, first_offset=0))
    auditor.acquired(client, "workers", "orders", 0, BatchCount(61_000, 2, 40, first_offset=0))
    with caplog.at_level(logging.INFO, "kafka_sidecar.audit"):
        auditor.close()
    assert [record.getMessage().partition(" : ")[2] for record in caplog.records] == [
        "(orders,1,ATTEMPT), (3 messages, 70 bytes)",
        "(orders,1,SUCCESS), (3 messages, 70 bytes)",
        "(orders,1,DELIVERED), (5 messages, 110 bytes)",
    ]
