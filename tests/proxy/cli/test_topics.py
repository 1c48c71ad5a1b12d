"""``kafka-sidecar topics`` where workers differ."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kafka_sidecar.proxy.cli import topics
from kafka_sidecar.proxy.cli.main import app


def test_what_differs_between_workers_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, object] = {"workers": {"0": {"topics": []}, "1": {"topics": []}}}
    monkeypatch.setattr(topics, "ask", lambda admin, path: answer)
    printed = CliRunner().invoke(app, ["topics"])
    assert (printed.exit_code, json.loads(printed.output)) == (0, answer)
