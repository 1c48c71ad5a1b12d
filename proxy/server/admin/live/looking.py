"""Taps that are there only while a reader wants what they see: without one a request costs what it did before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.server.server import Server

LEASE_S = 3.0  # after the last sample that wanted them; samples are taken each second

MakeTap = Callable[[int, int], Tap | None]  # API and version -> what watches its requests


class Looking:
    """Whether there is a reader: from the first `extend` until none came for `LEASE_S`."""

    def __init__(self, server: Server, tap: MakeTap, forget: Callable[[], None]) -> None:
        """``forget``: called once there is no reader."""
        self._server = server
        self._tap = tap
        self._forget = forget
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._end is not None

    def extend(self) -> None:
        """A reader wants it now."""
        if self._end is None:
            self._server.add_tap(self._tap)
        else:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(LEASE_S, self._stop)

    def _stop(self) -> None:
        self._end = None
        self._server.remove_tap(self._tap)
        self._forget()
