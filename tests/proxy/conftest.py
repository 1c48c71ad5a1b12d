"""Asynchronous tests of the proxy run on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every asynchronous test runs on both loops that the sidecar can run on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
