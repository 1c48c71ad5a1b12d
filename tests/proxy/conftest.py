"""Asynchronous tests of the proxy run on uvloop, those of runtime/ on both event loops, and plug-ins count as fast on
any machine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest
import uvloop

from kafka_sidecar.plugins import pace

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops on which an asynchronous test runs: what differs between them is in runtime/. `make test-all` runs all
    tests on both."""
    if "BOTH_LOOPS" in os.environ or item.path.parent.name == "runtime":
        return LOOPS
    return {"uvloop": LOOPS["uvloop"]}


@pytest.fixture(autouse=True)
def _fast_plugins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plug-in takes decides about threads only in tests that are marked ``measured``.

    That it is new does only with the argument "probation".
    """
    marker = request.node.get_closest_marker("measured")
    if marker is None or "probation" not in marker.args:
        monkeypatch.setattr(pace, "PROBATION_BATCHES", 0)
    if marker is None:
        monkeypatch.setattr(pace, "UNMEASURED_RECORDS", sys.maxsize)
        monkeypatch.setattr(pace, "MAX_TURN_S", 1e6)
