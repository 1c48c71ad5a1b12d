"""Rate-limited log lines."""

from __future__ import annotations

import logging
import traceback
from types import TracebackType
from typing import cast

import pytest

from kafka_sidecar.interceptors.headers import Headers
from kafka_sidecar.proxy.telemetry import log_limiter
from kafka_sidecar.proxy.telemetry.log_limiter import HIDDEN_TEXT, LogLimiter, Redacted, redact_error

Triple = tuple[type[BaseException], BaseException, TracebackType | None]
log = logging.getLogger(__name__)


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
