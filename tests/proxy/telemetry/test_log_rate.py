"""The rate limit of all log lines."""

from __future__ import annotations

import logging

from kafka_sidecar.proxy.telemetry.log_rate import BURST_S, LogRate
from kafka_sidecar.proxy.telemetry.logs import KEYS


def record(level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("kafka_sidecar.proxy", level, "", 0, "connection ended", (), None)


class Log:
    def __init__(self, lines_per_s: float) -> None:
        self.now = 0.0
        self.rate = LogRate(lines_per_s, lambda: self.now)

    def written(self, count: int, level: int = logging.INFO) -> int:
        return sum(bool(self.rate.filter(record(level))) for _ in range(count))


def test_lines_over_the_rate_are_suppressed_after_a_burst() -> None:
    log = Log(5)
    assert log.written(1000) == 5 * BURST_S
    log.now = 2.0
    assert log.written(1000) == 10
    log.now = 3600.0
    assert log.written(1000) == 5 * BURST_S


def test_the_next_line_has_the_number_of_suppressed_ones() -> None:
    log = Log(1)
    log.written(BURST_S + 7)
    log.now = 1.0
    first, log.now = record(), 1.0
    assert log.rate.filter(first)
    assert vars(first)["suppressed_in_all"] == 7
    log.now = 2.0
    second = record()
    assert log.rate.filter(second)
    assert "suppressed_in_all" not in vars(second)
    assert "suppressed_in_all" in KEYS


def test_errors_are_always_written() -> None:
    log = Log(1)
    assert log.written(100, logging.ERROR) == 100
    assert log.written(1) == 0


def test_suppressed_lines_are_counted() -> None:
    log = Log(1)
    log.written(BURST_S + 3)
    (family,) = log.rate.collect()
    assert [(sample.name, sample.value) for sample in family.samples] == [
        ("kafka_sidecar_suppressed_log_lines_total", 3)
    ]
