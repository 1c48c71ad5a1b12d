"""Asynchronous tests of the proxy run on both event loops, and plug-ins count as fast on any machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
import uvloop

from kafka_sidecar.plugins import pace


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every asynchronous test runs on both loops that the sidecar can run on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _fast_plugins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plug-in takes decides about threads only in tests that are marked ``measured``."""
    if request.node.get_closest_marker("measured") is None:
        monkeypatch.setattr(pace, "UNMEASURED_RECORDS", sys.maxsize)
        monkeypatch.setattr(pace, "MAX_TURN_S", 1e6)
