"""How these tests are run: Hypothesis the same way every time, asynchronous ones on both event loops.

`HYPOTHESIS_PROFILE=thorough` looks for new examples.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import uvloop
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", derandomize=True, max_examples=200, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.register_profile("thorough", max_examples=20_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every asynchronous test runs on both loops that the sidecar can run on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
