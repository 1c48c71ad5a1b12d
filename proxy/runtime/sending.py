"""Sends what is kept for Kafka, in order, and again until Kafka has it: one task, whatever it is that is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Generic, Protocol, TypeVar

from kafka_sidecar.proxy.runtime.tasks import spawn, stop

FIRST_RETRY_S, MAX_RETRY_S = 0.25, 5.0
STOP_S = 1.0

T = TypeVar("T")


class Writer(Protocol[T]):
    """The topics to which it is sent."""

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    async def write(self, items: list[T]) -> tuple[list[T], str | None]:
        """Send; those that were not written, and why not. Raises one of ``failures`` if none was.

        What will never be accepted is among neither: the writer counts it.
        """
        ...

    async def stop(self) -> None: ...


class Source(Protocol[T]):
    """What is to be sent."""

    async def take(self) -> list[T]:
        """The next ones, as many as are sent at a time; none if there are none."""
        ...

    async def written(self) -> None:
        """All that was taken last is written."""
        ...


class Lines(Protocol):
    """The log lines of a sender."""

    def not_sent(self, detail: str) -> None: ...

    def sent_again(self) -> None: ...

    def crashed(self, error: Exception) -> None: ...


class Sender(Generic[T]):
    """One task that sends. It ends with `finish`."""

    def __init__(
        self, source: Source[T], writer: Callable[[], Writer[T]], lines: Lines, name: str, *, imports: str
    ) -> None:
        """
        Args:
            source: what is sent.
            writer: makes what sends, when there is something to send.
            lines: its log lines.
            name: of the task.
            imports: the module that `writer` needs.
        """
        self._source = source
        self._make_writer = writer
        self._imports = imports
        self._lines = lines
        self._name = name
        self._writer: Writer[T] | None = None
        self._sending: list[T] = []
        self._began = 0.0
        self._has_more = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: str | None = None  # that was logged
        self.on_empty: Callable[[], None] = lambda: None  # all is sent
        self.failures = 0

    def start(self) -> None:
        self._tasks = [spawn(self._run(), self._name)]
        self._has_more.set()

    @property
    def is_started(self) -> bool:
        return bool(self._tasks)

    def wake(self) -> None:
        """There may be more. Called in the event loop."""
        self._is_idle.clear()
        self._has_more.set()

    @property
    def in_flight(self) -> int:
        return len(self._sending)

    @property
    def being_sent(self) -> list[T]:
        """What was taken and is not written, as far as is known."""
        return self._sending

    def is_failing(self, after_s: float) -> bool:
        """Whether what is being sent is not written after that time, or not at the first attempt."""
        return bool(self._sending) and (self.failure is not None or time.monotonic() - self._began > after_s)

    async def finish(self, within_s: float) -> list[T]:
        """Stop once all is sent, or after that time; what was being sent, which Kafka may have."""
        self.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s if self._tasks else 0):
                await self._is_idle.wait()
        await stop(*self._tasks)
        if self._writer is not None:
            with suppress(TimeoutError):  # aiokafka waits for brokers
                async with asyncio.timeout(STOP_S):
                    await self._writer.stop()
        unsent, self._sending = self._sending, []
        return unsent

    async def _run(self) -> None:
        while True:
            self._has_more.clear()
            self._sending = await self._source.take()
            if self._sending:
                await self._send()
                await self._source.written()
            else:
                self.on_empty()
                self._is_idle.set()
                await self._has_more.wait()

    async def _send(self) -> None:
        """Until all of ``_sending`` is written."""
        pause, self._began = FIRST_RETRY_S, time.monotonic()
        if self._writer is None:
            # In a thread: a turn of the event loop would take 65 ms for aiokafka.
            await asyncio.to_thread(import_module, self._imports)
            self._writer = self._make_writer()
        while True:
            failure = await self._attempt(self._writer)
            if failure is None:
                if self.failure is not None:
                    self._lines.sent_again()
                self.failure = None
                return
            self.failures += 1
            if failure != self.failure:
                self._lines.not_sent(failure)
                self.failure = failure
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_S)

    async def _attempt(self, writer: Writer[T]) -> str | None:
        """Why not all was written, None if all was."""
        before = len(self._sending)
        try:
            self._sending, failure = await writer.write(self._sending)
        except writer.failures as error:
            return str(error) or repr(error)
        except Exception as error:  # noqa: BLE001 - a bug must not end the task
            self._lines.crashed(error)
            return repr(error)
        self.wrote(before - len(self._sending))
        return failure if self._sending else None

    def wrote(self, items: int) -> None:
        """So many are written, or will never be accepted."""
