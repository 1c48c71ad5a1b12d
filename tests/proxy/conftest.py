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


NEW: dict[str, float] = {"PROBATION_BATCHES": pace.PROBATION_BATCHES}
SLOW: dict[str, float] = {"UNMEASURED_RECORDS": pace.UNMEASURED_RECORDS, "MAX_TURN_S": pace.MAX_TURN_S}
FAST: dict[str, float] = {"PROBATION_BATCHES": 0, "UNMEASURED_RECORDS": sys.maxsize, "MAX_TURN_S": 1e6}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a plug-in takes decides about threads only in tests that are marked ``measured``.

    That it is new does only with the argument "probation". No fixture: those of thousands of tests take a second.
    """
    marker = item.get_closest_marker("measured")
    measured: dict[str, float] = {} if marker is None else SLOW | NEW if "probation" in marker.args else SLOW
    vars(pace).update(FAST | measured)


@pytest.hookimpl(trylast=True)  # what a test has set is reset before
def pytest_runtest_teardown() -> None:
    vars(pace).update(SLOW | NEW)
