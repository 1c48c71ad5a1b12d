"""Looks at all connections every two seconds: ends those that are idle or stuck, and returns memory to the system.

Connections count bytes; whatever takes longer than the counts stay the same is found here, at no cost to a read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.runtime.allocator import release_unused_memory
from kafka_sidecar.proxy.runtime.connection import CLIENT_CLOSED, Connection
from kafka_sidecar.proxy.runtime.threads import Threads

INTERVAL_S = 2.0
PER_TURN = 500  # connections, before others have a turn of the event loop
FINISH_S = 10.0  # how long a client that sends no more may wait for responses
RELEASED_BYTES = 16 << 20  # that were buffered and no longer are, before unused memory is returned


class Sweep:
    """The limits of all connections."""

    def __init__(
        self,
        connections: Collection[Connection],
        memory: MemoryBudget,
        threads: Threads,
        max_idle_s: float,
        frame_timeout_s: float,
    ) -> None:
        self._connections = connections
        self._memory = memory
        self._threads = threads
        self._ended = (0, 0)  # pieces of work, as of the last two sweeps
        self._max_idle_s = max_idle_s
        self._frame_timeout_s = frame_timeout_s

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            now = time.monotonic()
            for number, connection in enumerate(list(self._connections)):
                if number % PER_TURN == PER_TURN - 1:
                    await asyncio.sleep(0)
                closing = self.overdue(connection, now)
                if closing is not None:
                    connection.end(closing)
            self._release()

    def overdue(self, connection: Connection, now: float) -> Closing | None:
        """Why the connection must end now, if it must."""
        quiet_s = connection.activity.quiet_s(connection, now)
        if connection.client_has_gone:
            return CLIENT_CLOSED
        if quiet_s < INTERVAL_S:
            return None
        session, limit = connection.session, self._frame_timeout_s
        if session.finishing is not None and quiet_s >= FINISH_S:
            return CLIENT_CLOSED
        half_request, half_response = session.incomplete
        if half_request and now - connection.activity.client_at >= limit:
            return Closing("frame_timeout", f"the client sent no more of a request for {limit:g} s")
        if half_response and now - connection.activity.broker_at >= limit:
            return Closing("frame_timeout", f"the broker sent no more of a response for {limit:g} s")
        if quiet_s >= self._max_idle_s and not session.in_flight:
            return Closing("idle", f"no byte was sent for {self._max_idle_s:g} s")
        return None

    def _release(self) -> None:
        """Return what was buffered, and what threads have inflated: by the second sweep nothing refers to it."""
        memory, ended, (earlier, last) = self._memory, self._threads.ended, self._ended
        if ended != earlier or memory.peak - memory.spent >= RELEASED_BYTES:
            memory.peak = memory.spent
            release_unused_memory()
        self._ended = last, ended
