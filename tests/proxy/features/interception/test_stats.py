"""Counters of interception, and rate-limited log lines without contents of records."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafka_sidecar.interceptors.contract import TopicPartition
from kafka_sidecar.proxy.features.interception.stats import LOG_INTERVAL_S, InterceptionStats
from kafka_sidecar.proxy.telemetry.logs import JsonLines


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records]


def test_one_line_for_each_interceptor_hook_and_kind_of_failure_is_written_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    seen = InterceptionStats(clock)
    for _ in range(5):
        seen.failed("mine", "on_send", RuntimeError("a bug"))
        seen.failed("mine", "on_send", KeyError("another"))
        seen.failed("mine", "on_consume", RuntimeError("a bug"))
        seen.failed("other", "on_send", RuntimeError("a bug"))
    clock.now += LOG_INTERVAL_S
    seen.failed("mine", "on_send", RuntimeError("a bug"))
    logged = [(line["interceptor"], line["hook"], line["suppressed"]) for line in lines(caplog)]
    assert logged == [
        ("mine", "on_send", 0), ("mine", "on_send", 0), ("mine", "on_consume", 0), ("other", "on_send", 0),
        ("mine", "on_send", 4),
    ]  # fmt: skip
    assert {line["message"] for line in lines(caplog)} == {"interceptor failed"}


@pytest.mark.parametrize(("level", "is_logged"), [("INFO", False), ("DEBUG", True)])
def test_the_text_of_a_failure_may_quote_a_record_and_is_logged_at_debug_only(
    level: str, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    secret = "4111" * 4
    try:
        int(f"card {secret}")
    except ValueError as error:
        InterceptionStats(Clock()).failed("mine", "on_send", error)
    written = JsonLines().format(caplog.records[0])
    assert "ValueError" in written
    assert "test_stats.py" in written
    assert (secret in written) is is_logged


def test_failures_and_slow_calls_name_the_topic_and_partition(caplog: pytest.LogCaptureFixture) -> None:
    seen = InterceptionStats(Clock())
    seen.failed("mine", "on_send", RuntimeError("a bug"), TopicPartition("orders", 3))
    seen.slow("mine", "on_send", 0.2, TopicPartition("orders", 4))
    seen.failed("mine", "pre_commit", RuntimeError("a bug"), None)
    logged = [(line.get("topic"), line.get("partition")) for line in lines(caplog)]
    assert logged == [("orders", 3), ("orders", 4), (None, None)]


def test_slow_calls_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    seen = InterceptionStats(Clock())
    for _ in range(3):
        seen.slow("mine", "on_send", 0.1234567)
    (line,) = lines(caplog)
    assert (line["message"], line["interceptor"], line["hook"]) == ("interceptor over budget", "mine", "on_send")
    assert (line["duration_s"], line["levelno"]) == (0.123, logging.WARNING)


def test_a_disabled_interceptor_is_always_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen = InterceptionStats(Clock())
    for _ in range(2):
        seen.disabled("mine", 100, 60.0)
    assert [(line["message"], line["failures"], line["pause_s"], line["levelno"]) for line in lines(caplog)] == [
        ("interceptor disabled", 100, 60.0, logging.ERROR)
    ] * 2


def test_skipped_batches_are_counted_and_logged_once_a_minute_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = InterceptionStats(Clock())
    for _ in range(3):
        seen.skipped("Fetch", "too_large", "orders")
    seen.skipped("Fetch", "unreadable", "orders")
    assert seen.batches == {("Fetch", "too_large"): 3, ("Fetch", "unreadable"): 1}
    assert [(line["api"], line["reason"], line["topic"]) for line in lines(caplog)] == [
        ("Fetch", "too_large", "orders"), ("Fetch", "unreadable", "orders"),
    ]  # fmt: skip
