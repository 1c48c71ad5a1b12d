"""Which lines are written, and how."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING, redact_error
from kafka_sidecar.proxy.telemetry.log_output import configure


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
