"""Rate-limited log lines."""

from __future__ import annotations

import logging
import traceback
from types import TracebackType
from typing import cast
from weakref import WeakSet

import pytest

from kafka_sidecar.interceptors.headers import Headers
from kafka_sidecar.proxy.telemetry import log_limiter
from kafka_sidecar.proxy.telemetry.log_limiter import (
    BURST_S,
    ERRORS_S,
    HIDDEN_TEXT,
    MAX_ERRORS,
    ErrorPlaces,
    LogLimiter,
    LogRate,
    Redacted,
    redact_error,
    write_held_back,
)
from kafka_sidecar.proxy.telemetry.logs import KEYS

Triple = tuple[type[BaseException], BaseException, TracebackType | None]
log = logging.getLogger(__name__)


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limiter, "_limiters", WeakSet())


def test_a_line_of_one_kind_is_due_once_per_interval_with_the_number_of_suppressed_ones() -> None:
    now = [0.0]
    limiter = LogLimiter(60.0, lambda: now[0])
    assert [limiter.due(("a",)) for _ in range(3)] == [0, None, None]
    assert limiter.due(("b",)) == 0
    now[0] = 60.0
    assert limiter.due(("a",)) == 2


def test_the_number_of_kinds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limiter, "MAX_KINDS", 10)
    limiter = LogLimiter(60.0, lambda: 0.0)
    for number in range(50):
        limiter.due((str(number),))
    assert len(limiter._logged) <= 10


def test_lines_of_all_kinds_together_are_limited_and_the_next_line_has_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_limiter, "MAX_LINES", 10)
    now = [0.0]
    limiter = LogLimiter(60.0, lambda: now[0])
    assert [limiter.due((str(number),)) for number in range(50)] == [0] * 10 + [None] * 40
    assert len(limiter._logged) == 10
    now[0] = 60.0
    assert limiter.due(("new",)) == 40
    assert limiter.due(("newer",)) == 0


def test_the_suppressed_lines_of_a_kind_that_is_forgotten_are_counted_with_the_next_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_limiter, "MAX_KINDS", 2)
    limiter = LogLimiter(60.0, lambda: 0.0)
    assert [limiter.due((kind,)) for kind in "aaabc"] == [0, None, None, 0, 2]


def test_an_error_is_logged_without_its_text_unless_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("a card number")
    caplog.set_level(logging.INFO)
    _, shown, _ = redact_error(error)  # type: ignore[misc] # at this level it is a triple
    assert isinstance(shown, Redacted)
    assert traceback.format_exception_only(shown) == [f"ValueError: {HIDDEN_TEXT}\n"]
    caplog.set_level(logging.DEBUG)
    assert redact_error(error) is error


def test_a_violation_of_the_contract_is_logged_with_its_text_and_without_the_errors_around_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    try:
        try:
            int("a card number")
        except ValueError:
            Headers([("who", "text")])  # type: ignore[list-item]
    except TypeError as error:
        shown = "".join(traceback.format_exception(*cast(Triple, redact_error(error))))
    assert "a card number" not in shown
    assert shown.endswith("ContractTypeError: the value of a header is str: it must be bytes or None\n")


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


def test_errors_have_a_rate_for_each_place_in_the_code() -> None:
    log = Log(1)
    assert log.written(BURST_S + 5) == BURST_S
    assert log.written(2000, logging.ERROR) == MAX_ERRORS
    other = record(logging.ERROR)
    other.lineno = 7
    assert log.rate.filter(other), "another place is not hidden by it"
    log.now = ERRORS_S
    assert log.written(2000, logging.ERROR) == MAX_ERRORS


def test_errors_that_one_line_catches_have_the_rate_of_where_they_were_raised() -> None:
    rate = LogRate(1, lambda: 0.0)

    def crashed(error: type[Exception]) -> bool:
        try:
            if error is ValueError:
                raise ValueError
            raise KeyError
        except (ValueError, KeyError) as caught:
            line = record(logging.ERROR)
            line.exc_info = (error, caught, caught.__traceback__)
            return rate.filter(line)

    assert sum(crashed(ValueError) for _ in range(100)) == MAX_ERRORS
    assert crashed(KeyError)


def test_the_places_of_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limiter, "MAX_PLACES", 5)
    places = ErrorPlaces(lambda: 0.0)
    for number in range(50):
        line = record(logging.ERROR)
        line.lineno = number
        places.allow(line)
    assert len(places._lines) == 5


def test_what_is_held_back_is_written_once_the_period_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limiter = LogLimiter(10.0, lambda: now[0])
    for _ in range(5):
        limiter.due(("connection ended", "tls_handshake_failed", "not_tls"))
    write_held_back()
    assert held_back(caplog) == []
    now[0] = 10.0
    write_held_back()
    write_held_back()
    assert held_back(caplog) == [(4, "connection ended, tls_handshake_failed, not_tls")]
    assert limiter.due(("connection ended", "tls_handshake_failed", "not_tls")) == 0


def test_what_is_held_back_is_written_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    limiter = LogLimiter(10.0, lambda: 0.0)
    for _ in range(3):
        limiter.due(("a", "b"))
    limiter.hold(7)
    write_held_back(is_last=True)
    assert held_back(caplog) == [(2, "a, b"), (7, "of many kinds")]


def held_back(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    lines = [vars(line) for line in caplog.records if line.getMessage() == "lines held back"]
    return [(line["suppressed"], line["detail"]) for line in lines]


def test_suppressed_lines_are_counted() -> None:
    log = Log(1)
    log.written(BURST_S + 3)
    (family,) = log.rate.families()
    assert (family.name, family.samples) == ("suppressed_log_lines", {(): 3})
