from __future__ import annotations

import math

import pytest

from kafka_sidecar.proxy.runtime import loop_budget


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, judging gives way only where a test is about that."""
    monkeypatch.setattr(loop_budget, "LONGEST_TURN_S", math.inf)
