"""``kafka-sidecar log-level`` prints what a sidecar of several workers answers."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kafka_sidecar.proxy.cli import log_level
from kafka_sidecar.proxy.cli.main import app


def test_levels_that_differ_between_workers_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"workers": {"0": {"level": "info", "loggers": {}}, "1": {"level": "debug", "loggers": {}}}}
    monkeypatch.setattr(log_level, "ask", lambda admin, path, method="GET": answer)
    printed = CliRunner().invoke(app, ["log-level"])
    assert (printed.exit_code, json.loads(printed.output)) == (0, answer)
