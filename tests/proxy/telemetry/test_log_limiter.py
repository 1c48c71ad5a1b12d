"""Log lines that come seldom."""

from __future__ import annotations

import logging

import pytest

from kafka_sidecar.proxy.telemetry import log_limiter
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, Redacted, redact

log = logging.getLogger(__name__)


def test_of_one_kind_a_line_is_due_once_in_a_while_and_says_how_many_were_left_out() -> None:
    now = [0.0]
    lines = LogLimiter(60.0, lambda: now[0])
    assert [lines.due(("a",)) for _ in range(3)] == [0, None, None]
    assert lines.due(("b",)) == 0
    now[0] = 60.0
    assert lines.due(("a",)) == 2


def test_kinds_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limiter, "MOST_KINDS", 10)
    lines = LogLimiter(60.0, lambda: 0.0)
    for number in range(50):
        lines.due((str(number),))
    assert len(lines._logged) <= 10


def test_an_error_is_logged_without_its_text_unless_the_log_is_at_debug() -> None:
    error = ValueError("a card number")
    log.setLevel(logging.INFO)
    kind, shown, _ = redact(log, error)  # type: ignore[misc] # at this level it is a triple
    assert kind is ValueError
    assert isinstance(shown, Redacted)
    assert str(shown) == "ValueError"
    log.setLevel(logging.DEBUG)
    assert redact(log, error) is error
