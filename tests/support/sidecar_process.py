"""A sidecar process in front of a broker that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.sidecar import Sidecar

from support.fake_broker import FakeBroker


@asynccontextmanager
async def running(broker: FakeBroker, log: Path, *flags: str) -> AsyncIterator[Sidecar]:
    """A sidecar process in front of a broker in this event loop."""
    sidecar = await asyncio.to_thread(Sidecar, broker.address, log, flags)
    try:
        await asyncio.to_thread(sidecar.wait)
        yield sidecar
    finally:
        sidecar.program.kill()


def port_of(sidecar: Sidecar) -> int:
    return int(sidecar.bootstrap.rpartition(":")[2])
