"""A worker's process, as the supervisor sees it."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from kafka_sidecar.proxy.server.workers.channel import Channel, FromWorker, Start, ToWorker


class Child(Protocol):
    @property
    def pid(self) -> int: ...

    def send(self, message: ToWorker) -> None: ...

    def kill(self) -> None: ...

    async def ended(self) -> str:
        """Returns once the process has ended, and all of its messages have come; how it ended."""
        ...


# Starts a worker; the callback gets its messages.
Launch = Callable[[Start, Callable[[FromWorker], None]], Awaitable[Child]]


class WorkerProcess:
    """A new Python process. It shares nothing with this one but standard output and error, and the channel."""

    def __init__(self, process: asyncio.subprocess.Process, on_message: Callable[[FromWorker], None]) -> None:
        self._process = process
        self._on_message = on_message
        self._silent = asyncio.Event()
        self._channel: Channel | None = None

    @classmethod
    async def launch(cls, start: Start, on_message: Callable[[FromWorker], None]) -> WorkerProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "kafka_sidecar.proxy.server.workers", str(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # signals of a terminal are for the supervisor, which tells the workers
            )  # fmt: skip
        child = cls(process, on_message)
        child._channel = await Channel.open(ours, on_message, child._silent.set)
        child.send(start)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def ended(self) -> str:
        code = await self._process.wait()
        await self._silent.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
