"""The log of topic configs as a compacted topic of the cluster, through aiokafka.

The clients themselves are in `kafka_clients`, which costs a sidecar some megabytes to import.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from kafka_sidecar.codec.wire import NO_ID
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
                if (suppressed := self._lines.due(("topic configs lost", self._lost))) is not None:
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


# Names of topics -> the ids of those that exist. Raises OSError, CodecError.
TopicIds = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]


class StoreError(Exception):
    """What was to be written is not known to be there. The text says why, for a person."""


class Reader(Protocol):
    """Gets what the log holds, in its order."""

    def began(self) -> None:
        """The log is read from its beginning, for the first time or again."""
        ...

    def read(self, key: bytes, value: bytes | None) -> None:
        """The next record; without a value the key is no more. Raises nothing."""
        ...

    def caught_up(self) -> None:
        """All that was in the log when reading began has been read."""
        ...


class Store(Protocol):
    async def start(self, reader: Reader) -> None:
        """Begin to read, and go on until `stop`, whatever happens to the cluster."""
        ...

    async def stop(self) -> None: ...

    async def write(self, key: bytes, value: bytes | None) -> None:
        """Returns once it is written and has come back to the reader. Raises StoreError."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the log cannot be read now, None where it can."""
        ...

    @property
    def lost(self) -> str | None:
        """Why the log does not hold what was read of it; it is no longer read then. None: it does."""
        ...

    def accept(self) -> None:
        """Read the log as it is now, from its beginning, though it lacks what was read before; create it if need be."""
        ...


class LogLostError(Exception):
    """The log does not hold what was read of it. The text says why, for a person."""


class LogHistory:
    """One log, from the beginning of its reading on."""

    __slots__ = ("_lost", "_next_offset", "_offsets", "_topic_id")

    def __init__(self) -> None:
        self._topic_id = NO_ID  # not known yet
        self._next_offset = 0  # all below is read
        self._offsets: dict[bytes, int] = {}  # of the last record of each key, if it has a value
        self._lost: str | None = None

    def read(self, offset: int, key: bytes, value: bytes | None) -> None:
        """The next record."""
        self._next_offset = offset + 1
        if value is None:
            self._offsets.pop(key, None)
        else:
            self._offsets[key] = offset

    def check_id(self, topic_id: bytes | None) -> None:
        """Compare the id that the topic has now: zeros where it does not exist, None where no broker says.

        Raises LogLostError. A topic that is missing may come back: brokers learn of topics one after another. One that
        was created again is another topic for ever, whatever a broker says that has not learned of it yet.
        """
        if topic_id == NO_ID and self._topic_id != NO_ID:
            raise LogLostError("it no longer exists")
        if self._topic_id == NO_ID:
            self._topic_id = topic_id or NO_ID
        if topic_id is not None and topic_id != self._topic_id:
            self._lose(f"it was created again: its id was {_printed(self._topic_id)}, now it is {_printed(topic_id)}")
        self._raise_if_lost()

    def check_offsets(self, start: int, end: int) -> None:
        """Compare where the log begins and ends now. Raises LogLostError."""
        if end < self._next_offset:
            self._lose(f"it was truncated: it was read up to offset {self._next_offset}, now it ends at {end}")
        elif any(offset < start for offset in self._offsets.values()):
            self._lose(f"records were deleted: now it begins at offset {start}")
        self._raise_if_lost()

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise LogLostError(self._lost)


def _printed(topic_id: bytes) -> str:
    """As kafka-topics.sh --describe prints it."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()
