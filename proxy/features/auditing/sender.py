"""Sends the events of the outbox to the audit topic, in order, and again until Kafka has them: a file keeps them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from kafka_sidecar.audit.outbox import Pending
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.security.private_files import replace_file

log = logging.getLogger(__name__)

MAX_EVENTS, MAX_BYTES = 500, 1 << 20  # that are sent at a time
FIRST_RETRY_S, MAX_RETRY_S = 0.25, 5.0
STOP_S = 1.0


class Writer(Protocol):
    """The audit topic."""

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    async def write(self, events: list[Pending]) -> tuple[list[Pending], str | None]:
        """Send events; those that were not written, and why not. Raises one of ``failures`` if none was.

        Events that the topic will never accept are among neither: see ``too_large``.
        """
        ...

    @property
    def too_large(self) -> int:
        """Events that the topic does not accept because of their size."""
        ...

    async def stop(self) -> None: ...


class Events(Protocol):
    """What is to be sent."""

    def take(self, max_events: int, max_bytes: int) -> list[Pending]: ...


class Sender:
    """One task that sends. It ends with `finish`."""

    def __init__(self, outbox: Events, writer: Callable[[], Writer]) -> None:
        self._outbox = outbox
        self._make_writer = writer
        self._writer: Writer | None = None
        self._sending: list[Pending] = []
        self._has_events = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: str | None = None  # that was logged
        self.on_empty: Callable[[], None] = lambda: None  # all events are sent
        self.sent = self.failures = 0

    def start(self) -> None:
        self._tasks = [spawn(self._run(), "send audit events")]
        self._has_events.set()

    def wake(self) -> None:
        """There may be events. Called in the event loop."""
        self._is_idle.clear()
        self._has_events.set()

    @property
    def in_flight(self) -> int:
        return len(self._sending)

    @property
    def too_large(self) -> int:
        return self._writer.too_large if self._writer is not None else 0

    async def finish(self, within_s: float) -> list[Pending]:
        """Stop once all events are sent, or after that time; those that are not sent."""
        self.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._is_idle.wait()
        await stop(*self._tasks)
        if self._writer is not None:
            with suppress(TimeoutError):  # aiokafka waits for brokers
                async with asyncio.timeout(STOP_S):
                    await self._writer.stop()
        unsent, self._sending = self._sending, []
        while more := self._outbox.take(MAX_EVENTS, MAX_BYTES):
            unsent += more
        return unsent

    async def _run(self) -> None:
        while True:
            self._has_events.clear()
            self._sending = self._outbox.take(MAX_EVENTS, MAX_BYTES)
            if self._sending:
                await self._send()
            else:
                self.on_empty()
                self._is_idle.set()
                await self._has_events.wait()

    async def _send(self) -> None:
        """Until all of ``_sending`` is written."""
        pause = FIRST_RETRY_S
        if self._writer is None:
            self._writer = self._make_writer()
        while True:
            failure = await self._attempt(self._writer)
            if failure is None:
                if self.failure is not None:
                    log.info("audit events are sent again")
                self.failure = None
                return
            self.failures += 1
            if failure != self.failure:
                log.warning("audit events not sent, they are buffered", extra={"detail": failure})
                self.failure = failure
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_S)

    async def _attempt(self, writer: Writer) -> str | None:
        """Why not all was written, None if all was."""
        before = len(self._sending) + writer.too_large
        try:
            self._sending, failure = await writer.write(self._sending)
        except writer.failures as error:
            return str(error) or repr(error)
        except Exception as error:
            log.error("audit sender crashed: this is a bug", exc_info=error)
            return repr(error)
        self.sent += before - len(self._sending) - writer.too_large
        return failure if self._sending else None


class Spool:
    """A file of events, from a stop without Kafka to the next start: one event a line, as it is sent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> list[bytes]:
        """The events in the file; none if it does not exist or is unreadable, which is logged."""
        try:
            return self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("audit spool unreadable", extra={"detail": self._detail(error)})
            return []

    def save(self, events: Iterable[bytes]) -> bool:
        """Replace the file atomically; False if it cannot be written, which is logged."""
        try:
            replace_file(self._path, (event + b"\n" for event in events), is_synced=True)
        except OSError as error:
            log.error("audit spool not written", extra={"detail": self._detail(error)})
            return False
        return True

    def remove(self) -> None:
        """Its events are sent. A file that stays is sent again: an event that arrives twice counts once."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("audit spool not removed", extra={"detail": self._detail(error)})

    def _detail(self, error: OSError) -> str:
        return f"{self._path}: {error.strerror or error}"
