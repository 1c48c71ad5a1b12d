"""Taps whose lines are counted: no more than those of a second at once."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.server.admin.tap import open_tap


@pytest.fixture(autouse=True)
def burst_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_tap, "BURST_S", 1.0)
