"""Which lines are written, and how."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING, redact_error
from kafka_sidecar.proxy.telemetry.logs import JsonLines, TextLines, configure, formatter


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    QUOTING.setLevel(logging.NOTSET)


def test_only_lines_of_the_configured_level_and_above_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning")
    logging.getLogger("kafka_sidecar.proxy").info("not this")
    logging.getLogger("kafka_sidecar.proxy").warning("but this")
    assert [json.loads(written)["message"] for written in capsys.readouterr().out.splitlines()] == ["but this"]


def test_auto_is_json_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", wanted="auto")
    logging.getLogger("kafka_sidecar").warning("broker unreachable", extra={"address": "a:1"})
    assert json.loads(capsys.readouterr().out)["address"] == "a:1"


def test_the_number_of_the_worker_is_in_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", worker=2, wanted="text")
    logging.getLogger("kafka_sidecar").warning("stopping")
    assert "WARNING stopping  worker=2  [kafka_sidecar]" in capsys.readouterr().out


@pytest.mark.parametrize(("configured", "quotes"), [("info", False), ("debug", True)])
def test_a_level_that_is_changed_later_makes_no_line_quote_a_record(configured: str, quotes: bool) -> None:
    configure(configured)
    logging.getLogger("kafka_sidecar").setLevel(logging.DEBUG)
    error = ValueError("4111")
    assert (redact_error(error) is error) is quotes
    logging.getLogger("kafka_sidecar").setLevel(logging.NOTSET)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(message: str = "connection ended", level: int = logging.INFO, **keys: Any) -> str:
    record = logging.LogRecord("kafka_sidecar.proxy.server.server", level, "", 0, message, (), None)
    vars(record).update(keys)
    return TextLines(is_coloured=False).format(record)


def test_a_line_has_time_level_message_keys_and_logger() -> None:
    text = line(session=6, client_id="orders", detail="the client closed", cause=None, in_flight=0)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO    connection ended  "
        r'session=6 client_id=orders detail="the client closed" in_flight=0  \[proxy.server.server\]',
        text,
    )


@pytest.mark.parametrize("value", ["two\nlines", "\x1b[2J", "a=b c", "\udcff", "\x00"])
def test_values_of_clients_cannot_break_a_line_or_control_a_terminal(value: str) -> None:
    text = line(client_id=value) + line(value)
    assert text.isprintable()


def test_a_traceback_follows_indented_without_control_characters() -> None:
    try:
        raise ValueError("two\x1b[2J")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "broke", (), sys.exc_info())
    first, *rest = TextLines(is_coloured=False).format(record).split("\n")
    assert first.endswith("ERROR   broke  [x]")
    assert rest[-1] == "    ValueError: two\\x1b[2J"
    assert all(one.startswith("    ") for one in rest)


@pytest.mark.parametrize(
    ("wanted", "output", "kind"),
    [
        ("auto", Terminal(), TextLines), ("auto", io.StringIO(), JsonLines), ("json", Terminal(), JsonLines),
        ("text", io.StringIO(), TextLines),
    ],
)  # fmt: skip
def test_auto_is_text_on_a_terminal(wanted: Any, output: io.StringIO, kind: type) -> None:
    assert type(formatter(wanted, output)) is kind


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_warnings_are_coloured_on_a_terminal_unless_no_color_is_set(
    no_color: str, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    made = formatter("auto", Terminal())
    record = logging.LogRecord("x", logging.WARNING, "", 0, "broker unreachable", (), None)
    assert made.format(record).startswith("\x1b[33m") is is_coloured
