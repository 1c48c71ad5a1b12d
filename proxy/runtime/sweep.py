"""Ends connections: every two seconds those that are idle, stuck or too old; at the end of a drain all of them.

Connections count bytes; whatever takes longer than the counts stay the same is found here, at no cost to a read. The
sweep also returns memory to the system, and bounds what a collection of garbage takes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.runtime.connection import CLIENT_CLOSED, Connection
from kafka_sidecar.proxy.runtime.garbage import Garbage
from kafka_sidecar.proxy.runtime.program import release_unused_memory
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.runtime.threads import Threads

FINISH_INTERVAL_S = 0.01  # until a connection that could not be ended is looked at again


INTERVAL_S = 2.0
PER_TURN = 500  # connections that are looked at, before others have a turn of the event loop
ENDED_PER_TURN = 20  # of these: each cancels what it waits for, and has two sockets to close
JITTER, GOLDEN_RATIO = 0.2, 0.618034
AGED_PATIENCE_S = 10.0  # in which a moment without requests is waited for
FINISH_S = 10.0  # how long a client that sends no more may wait for responses
SLOW_S = 4.0  # over which it is measured how fast a client reads
MIN_RATE = 64 << 10  # bytes a second that a client must read while others wait for the memory that it holds
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
        max_age_s: float = math.inf,
    ) -> None:
        self._connections = connections
        self._memory = memory
        self._threads = threads
        self._ended = (0, 0)  # pieces of work, as of the last two sweeps
        self._max_idle_s = max_idle_s
        self._frame_timeout_s = frame_timeout_s
        self._max_age_s = max_age_s
        self._aged: set[Connection] = set()  # those that are being ended for it
        self._slow_readers = SlowReaders(memory)
        self._garbage = Garbage()

    async def run(self) -> None:
        """Sweep until cancelled."""
        with self._garbage.little_at_once():
            while True:
                await asyncio.sleep(INTERVAL_S)
                await self._sweep(time.monotonic())
                self._garbage.look_at_all(len(self._connections))

    async def _sweep(self, now: float) -> None:
        looked_at = ended = 0
        for connection in list(self._connections):
            if looked_at >= PER_TURN or ended >= ENDED_PER_TURN:
                looked_at = ended = 0
                await asyncio.sleep(0)
            looked_at += 1
            closing = self.overdue(connection, now)
            if closing is not None:
                connection.end(closing)
                ended += 1
        if (slowest := self._slow_readers.slowest(self._connections, now)) is not None:
            slowest.end(now)
        self._end_aged(now)
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
        if quiet_s >= self._max_idle_s and not session.in_flight and not connection.is_muted:
            return Closing("idle", f"no byte was sent for {self._max_idle_s:g} s")
        return None

    def _end_aged(self, now: float) -> None:
        """End those that are too old, each at a moment without requests; not all of them at once."""
        if self._max_age_s == math.inf:
            return
        self._aged.intersection_update(self._connections)
        due = {one for one in self._connections if now - one.began >= self._max_age_s * _share(one.number)} - self._aged
        if due:
            self._aged |= due
            closing = Closing("max_age", f"the connection is older than connections.max_age ({self._max_age_s:g} s)")
            spawn(finish_connections(self._connections, closing, AGED_PATIENCE_S, due), "end aged connections")

    def _release(self) -> None:
        """Return what was buffered, and what threads have inflated: by the second sweep nothing refers to it."""
        memory, ended, (earlier, last) = self._memory, self._threads.ended, self._ended
        if ended != earlier or memory.peak - memory.spent >= RELEASED_BYTES:
            memory.peak = memory.spent
            release_unused_memory()
        self._ended = last, ended


def _share(number: int) -> float:
    """Of the maximum age, for one connection: clients that have connected together come back one after the other."""
    return 1 - JITTER * (number * GOLDEN_RATIO % 1)


class SlowReader(NamedTuple):
    """A client for which a response waits."""

    connection: Connection
    since: float
    progress: int  # then

    def rate(self, now: float) -> float:
        """Bytes a second that it has read since then."""
        return (self.connection.flow.client_progress - self.progress) / max(now - self.since, 1e-9)

    def end(self, now: float) -> None:
        """Others get its memory now, not once it has read what is written."""
        size, rate = self.connection.flow.unsent, max(self.rate(now), 0)
        detail = f"the client read {rate:.0f} bytes/s of a response; others wait for the memory of {size} bytes"
        self.connection.end(Closing("slow_reader", detail))
        self.connection.client.abort()


class SlowReaders:
    """The clients that hold memory because they do not read their responses."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._known: dict[int, SlowReader] = {}  # by the number of the connection

    def slowest(self, connections: Collection[Connection], now: float) -> SlowReader | None:
        """The one that must end now, because others wait for memory."""
        known, self._known = self._known, {}
        for connection in connections:
            if connection.flow.unsent:
                one = known.get(connection.number)
                if one is None or one.rate(now) < 0 or (now - one.since >= SLOW_S and one.rate(now) >= MIN_RATE):
                    one = SlowReader(connection, now, connection.flow.client_progress)
                self._known[connection.number] = one
        slow = [one for one in self._known.values() if now - one.since >= SLOW_S]
        if not slow or not self._memory.is_waited_for({one.connection.flow.account for one in self._known.values()}):
            return None
        return min(slow, key=lambda one: one.rate(now))


async def finish_connections(
    connections: Collection[Connection], closing: Closing, patience_s: float, some: Iterable[Connection] | None = None
) -> None:
    """Let each of these connections end, or ``some`` of them; ``connections`` loses those that have.

    For ``patience_s`` each is ended at a moment without requests, at which no client loses anything. After that those
    that are never without are read no more: a request that is on its way fails at a client that does not retry.
    """
    unfinished, patient_until = set(connections if some is None else some), time.monotonic() + patience_s
    while unfinished:
        is_patient = time.monotonic() < patient_until
        unfinished = {one for one in unfinished.intersection(connections) if not finish(one, closing, is_patient)}
        await asyncio.sleep(FINISH_INTERVAL_S)


def finish(connection: Connection, closing: Closing, is_patient: bool) -> bool:
    """End once each request that was read has its response; False if not now.

    What the client sends from now on is read and discarded: bytes that no program reads make the operating system reset
    the connection when it is closed, and the client could lose the responses.
    """
    session = connection.session
    if connection.is_muted:
        session.stop_reading(closing)
        connection.muting.stop()  # to read and discard, next time, what has come meanwhile
        return False
    if connection.is_dialling and is_patient:
        return False
    if connection.to_broker is None or not (session.awaits_responses or any(session.incomplete)):
        connection.end(closing)
    elif is_patient or session.incomplete[0]:
        return False
    else:
        session.stop_reading(closing)
    return True
