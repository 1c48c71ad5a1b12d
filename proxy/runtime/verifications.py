"""Verifies what clients log in with, in threads, so that those who guess passwords keep neither the loop nor others.

A password takes milliseconds of CPU: they are verified one after the other, and addresses take turns. Of one address
the newest is the first: an honest client then does not wait for all that guess beside it, which begin again only once
they are rejected. All else takes microseconds, and does not wait for passwords. Addresses with many rejected logins
wait longer for each rejection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from kafka_sidecar.plugins.bounded import Bounded

T = TypeVar("T")
Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]

REJECTED_PAUSE_S = 0.1  # before a rejection is sent, as Kafka's connection.failed.authentication.delay.ms
MAX_PAUSE_S = 5.0
FAILURES_A_STEP = 20  # of an address, after which its pause is twice as long
HALF_LIFE_S = 10.0  # after which half of its failures are forgotten
MAX_ADDRESSES = 1000  # whose failures are counted


class Verifications:
    """Those of one process."""

    def __init__(self) -> None:
        self._passwords = ThreadPoolExecutor(1, thread_name_prefix="passwords")  # they start with the first login
        self._others = ThreadPoolExecutor(1, thread_name_prefix="logins")
        self._waiting: dict[str, list[Waiting]] = {}  # for a password's turn, by address; the next address is the first
        self._is_busy = False

    async def run(self, verify: Callable[[], T], address: str = "", is_quick: bool = False) -> T:
        """What ``verify`` returns or raises. ``is_quick``: it computes nothing from a password."""
        loop = asyncio.get_running_loop()
        if is_quick:
            return await loop.run_in_executor(self._others, verify)
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.setdefault(address, []).append((verify, future))
        self._begin_next()
        return await future

    def stop(self) -> None:
        """Verify nothing that waits."""
        for waiting in self._waiting.values():
            for _, future in waiting:
                future.cancel()
        self._waiting.clear()
        for threads in (self._passwords, self._others):
            threads.shutdown(wait=False, cancel_futures=True)

    def _begin_next(self) -> None:
        while not self._is_busy and self._waiting:
            address = next(iter(self._waiting))
            waiting = self._waiting.pop(address)
            verify, future = waiting.pop()
            if waiting:
                self._waiting[address] = waiting  # after the others
            if not future.done():
                self._is_busy = True
                running = asyncio.wrap_future(self._passwords.submit(verify))
                running.add_done_callback(partial(self._ended, future))

    def _ended(self, future: asyncio.Future[Any], running: asyncio.Future[Any]) -> None:
        self._is_busy = False
        if not future.done():
            if running.cancelled():
                future.cancel()
            elif (error := running.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(running.result())
        self._begin_next()


class Failures:
    """The rejected logins of addresses, and how long a client waits for the next rejection."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts = Bounded[str, tuple[float, float]](
            MAX_ADDRESSES
        )  # by address, and when that was so; the latest is the last

    def pause_s(self, address: str) -> float:
        """One more login of this address is rejected: when to say so."""
        now = self._clock()
        count, at = self._counts.pop(address, (0.0, now))
        count = count * 0.5 ** ((now - at) / HALF_LIFE_S) + 1
        self._counts[address] = count, now
        return float(min(MAX_PAUSE_S, REJECTED_PAUSE_S * 2 ** min(count // FAILURES_A_STEP, 10)))
