"""Workers without processes: what the supervisor has sent to each, and messages in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_sidecar.proxy.server.workers.channel import FromWorker, Prepared, Serve, Serving, Start, ToWorker
from kafka_sidecar.proxy.server.workers.supervisor import Supervisor
from support.in_process import config


class FakeChild:
    """One worker's process that never was."""

    def __init__(self, start: Start, tell: Callable[[FromWorker], None]) -> None:
        self.start = start
        self.tell = tell  # the supervisor, what this worker has to say
        self.sent: list[ToWorker] = []
        self.pid = 1000 + start.config.worker.number
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def number(self) -> int:
        return self.start.config.worker.number

    @property
    def is_running(self) -> bool:
        return not self._end.done()

    def send(self, message: ToWorker) -> None:
        self.sent.append(message)

    def kill(self) -> None:
        self.die("killed by SIGKILL")

    def die(self, how: str = "exit code 0") -> None:
        if self.is_running:
            self._end.set_result(how)

    async def ended(self) -> str:
        return await self._end


class Pauses:
    """Waits that end when the test says so."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def __call__(self, seconds: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((seconds, waiting))
        await waiting

    @property
    def lengths(self) -> list[float]:
        """Seconds of the waits that have not ended."""
        return [seconds for seconds, waiting in self._waiting if not waiting.done()]

    def end(self, seconds: float) -> None:
        """End the waits of this length."""
        for length, waiting in self._waiting:
            if length == seconds and not waiting.done():
                waiting.set_result(None)


class Group:
    """A supervisor of fake workers."""

    def __init__(self, count: int = 2, **settings: Any) -> None:
        self.children: list[FakeChild] = []  # in the order of their starts
        self.now = 0.0
        self.pause = Pauses()
        self.launch_error: OSError | None = None
        settings = {"workers": count, **settings}
        self.config = config("127.0.0.1:1", **settings)
        path = Path("kafka-sidecar.yaml")
        self.supervisor = Supervisor(self.config, path, {}, self._launch, lambda: self.now, self.pause)

    async def _launch(self, start: Start, tell: Callable[[FromWorker], None]) -> FakeChild:
        if self.launch_error is not None:
            raise self.launch_error
        self.children.append(child := FakeChild(start, tell))
        return child

    def child(self, number: int) -> FakeChild:
        """The present process of a worker."""
        return next(child for child in reversed(self.children) if child.number == number)

    async def serve(self) -> None:
        """Start all, as real ones do."""
        starting = asyncio.ensure_future(self.supervisor.start())
        await turns()
        for child in self.children:
            child.tell(Prepared())
        while not starting.done():
            await turns()
            for child in self.children:
                if Serve() in child.sent:
                    child.sent.remove(Serve())
                    child.tell(Serving())
        starting.result()


async def turns() -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(10):
        await asyncio.sleep(0)
