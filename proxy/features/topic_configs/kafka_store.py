"""The log of topic configs as a compacted topic of the cluster, through aiokafka.

The clients themselves are in `kafka_clients`, which costs a sidecar some megabytes to import.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from kafka_sidecar.proxy.features.topic_configs.log_history import LogHistory, LogLostError
from kafka_sidecar.proxy.features.topic_configs.store import Reader, StoreError
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

log = logging.getLogger(__name__)

POLL_MS = 1000  # aiokafka returns at once when there is something to read
FRESH_S = 10.0  # a broker answers a fetch within two seconds, even with nothing
CHECK_S = 5.0  # how often it is checked that the topic is still the one that is read
WRITE_LIMIT_S = 8.0
FIRST_RETRY_S, MAX_RETRY_S = 0.25, 5.0
LOST_LOG_INTERVAL_S = 600.0


class Log(Protocol):
    """The topic's one partition, being read from its beginning. Raises one of `Clients.failures`."""

    async def start(self) -> int: ...

    async def end(self) -> int: ...

    async def next(self, wait_ms: int) -> list[Any]: ...

    async def position(self) -> int: ...

    def heard_at(self, before: float) -> float: ...


class Clients(Protocol):
    """A producer and a consumer of the topic."""

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    async def topic_id(self) -> bytes | None:
        """Zeros where the topic does not exist, None where no broker says."""
        ...

    async def write(self, key: bytes, value: bytes | None) -> int: ...

    def reading(self, create: bool) -> AbstractAsyncContextManager[Log]: ...

    async def stop(self) -> None: ...


class KafkaStore:
    """Reads the topic from its beginning, and again from there after every failure that aiokafka does not mend.

    A topic that was read once is neither created again nor, if it was created by others, read, until `accept`.
    """

    def __init__(self, make_clients: Callable[[], Clients]) -> None:
        self._make_clients = make_clients
        self._clients: Clients | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._next_offset = 0  # all below is read
        self._coming_back: dict[asyncio.Future[None], int] = {}  # offsets that a write waits for
        self._caught_up = False
        self._failure: str | None = None
        self._heard_at = 0.0
        self._known: LogHistory | None = None  # the log that was read to its end before
        self._lost: str | None = None
        self._lines = LogLimiter(LOST_LOG_INTERVAL_S, time.monotonic)

    async def start(self, reader: Reader) -> None:
        self._clients = self._make_clients()
        self._tasks = [spawn(self._keep_reading(self._clients, reader), "read topic configs")]

    async def stop(self) -> None:
        await stop(*self._tasks)
        if self._clients is not None:
            await self._clients.stop()

    @property
    def lost(self) -> str | None:
        return self._lost

    def accept(self) -> None:
        self._known = None

    @property
    def trouble(self) -> str | None:
        if self._lost is not None:
            return self._lost
        if self._failure is not None:
            return self._failure
        if not self._caught_up:
            return "its topic is not read to the end yet"
        silence = time.monotonic() - self._heard_at
        return None if silence < FRESH_S else f"no broker has answered for {silence:.0f} s"

    async def write(self, key: bytes, value: bytes | None) -> None:
        if self._clients is None:
            raise StoreError("the store is not started")
        if self._lost is not None:
            raise StoreError(self._lost)
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                offset = await self._clients.write(key, value)
                await self._until_read(offset)
        except TimeoutError:
            raise StoreError(self.trouble or f"the brokers did not take it within {WRITE_LIMIT_S:g} s") from None
        except self._clients.failures as error:
            raise StoreError(str(error) or repr(error)) from error

    async def _until_read(self, offset: int) -> None:
        if self._caught_up and offset < self._next_offset:
            return
        back: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._coming_back[back] = offset
        try:
            await back
        finally:
            del self._coming_back[back]

    async def _keep_reading(self, clients: Clients, reader: Reader) -> None:
        pause, last_logged = FIRST_RETRY_S, ""
        while True:
            began = time.monotonic()
            try:
                await self._read(clients, reader)
            except LogLostError as error:
                self._lost = str(error)
                if (suppressed := self._lines.due((self._lost,))) is not None:
                    log.error("topic configs lost", extra={"detail": self._lost, "suppressed": suppressed or None})
            except clients.failures as error:
                self._failure = str(error) or repr(error)
                level = logging.DEBUG if self._failure == last_logged else logging.WARNING
                log.log(level, "topic configs unreadable", extra={"detail": (last_logged := self._failure)})
            except Exception as error:
                self._failure = repr(error)
                log.error("topic config reader crashed: this is a bug", exc_info=error)
            if time.monotonic() - began > MAX_RETRY_S:
                pause = FIRST_RETRY_S
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_S)

    async def _read(self, clients: Clients, reader: Reader) -> None:
        """Read from the beginning and on and on; ends with one of ``clients.failures``, or LogLostError."""
        self._caught_up = False
        known = self._known
        if known is not None:
            known.check_id(await clients.topic_id())
        async with clients.reading(create=known is None) as log_of_configs:
            end = await log_of_configs.end()
            if known is not None:
                known.check_offsets(await log_of_configs.start(), end)
            history = LogHistory()
            history.check_id(await clients.topic_id())
            self._next_offset = await log_of_configs.position()
            self._heard_at = checked_at = time.monotonic()
            reader.began()
            while True:
                if not self._caught_up and self._next_offset >= end:
                    self._caught_up, self._failure, self._lost, self._known = True, None, None, history
                    reader.caught_up()
                if self._caught_up:
                    self._tell_who_waits()
                for record in await log_of_configs.next(POLL_MS):
                    key = record.key or b""
                    history.read(record.offset, key, record.value)
                    reader.read(key, record.value)
                self._next_offset = await log_of_configs.position()
                self._heard_at = log_of_configs.heard_at(self._heard_at)
                if time.monotonic() - checked_at >= CHECK_S:
                    history.check_id(await clients.topic_id())
                    history.check_offsets(await log_of_configs.start(), await log_of_configs.end())
                    checked_at = time.monotonic()

    def _tell_who_waits(self) -> None:
        for back, offset in self._coming_back.items():
            if offset < self._next_offset and not back.done():
                back.set_result(None)
