"""An audit topic in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from kafka_sidecar.audit.outbox import Pending


class FakeTopic:
    """Takes events, or fails as it is set to."""

    failures = (OSError,)

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.takes = 1 << 30  # of each write: the others are not written
        self.too_large = 0
        self.max_bytes = 1 << 30
        self.attempts = 0
        self.attempted = asyncio.Event()
        self.stopped = False

    async def write(self, events: list[Pending]) -> tuple[list[Pending], str | None]:
        self.attempts += 1
        self.attempted.set()
        if self.error is not None:
            raise self.error
        small = [event for event in events if len(event.value) <= self.max_bytes]
        self.too_large += len(events) - len(small)
        self.events += [orjson.loads(event.value) for event in small[: self.takes]]
        return small[self.takes :], "slow" if small[self.takes :] else None

    async def stop(self) -> None:
        self.stopped = True
