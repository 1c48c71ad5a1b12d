"""Starts the workers, starts one again that has died, and passes on reloads and the drain (decision 19)."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.workers import Place
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.server.admin.page import Page
from kafka_sidecar.proxy.server.workers.channel import (
    Applied,
    BrokersChanged,
    Channel,
    Drain,
    FromWorker,
    HangUp,
    Invalid,
    PageRequest,
    PageResponse,
    Prepared,
    SampleRequest,
    Serve,
    Serving,
    Start,
    TapLines,
    ToWorker,
)
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge


class Child(Protocol):
    """A worker's process."""

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
                pass_fds=(theirs.fileno(), *filter(None, (start.config.worker.shared,))),
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


log = logging.getLogger(__name__)

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 30.0  # before a worker is started again
STABLE_S = 60.0  # a worker that has served for so long is started again after the first pause
CHECK_INTERVAL_S = 5.0
HUNG_S = 30.0  # without a sign of life; the worker sends one every five seconds
START_LIMIT_S = 120.0  # until a worker serves
PAGE_LIMIT_S = 5.0  # for a worker's page
AFTER_DRAIN_S = 10.0  # for a worker to end once its drain must be over


class WorkerFailedError(Exception):
    """A worker has ended before all served for the first time."""


@dataclass(slots=True, eq=False)
class Worker:
    """One of the workers; ``child`` while there is a process."""

    number: int
    child: Child | None = None
    is_prepared: bool = False
    is_serving: bool = False
    was_ready: bool = False  # since it was started
    heard_at: float = 0.0
    served_at: float | None = None
    mistakes: tuple[str, ...] = ()
    pages: deque[asyncio.Future[Page]] = field(default_factory=deque)

    def send(self, message: ToWorker) -> None:
        if self.child is not None:
            self.child.send(message)


class Supervisor:
    """All workers. `start`, then `drain`."""

    def __init__(
        self,
        config: Config,
        path: Path | None,
        flags: Mapping[str, object],
        launch: Launch,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shared: int | None = None,
    ) -> None:
        """``shared``: the descriptor of the memory that all workers have."""
        self.config = config  # what applies: of the start, with what was reloaded since
        self.workers = [Worker(number) for number in range(1, config.worker_count + 1)]
        self.restarts: Counter[int] = Counter({worker.number: 0 for worker in self.workers})
        self.on_end: Callable[[int], None] = lambda number: None  # a worker has ended
        self.on_serving: Callable[[Worker], None] = lambda worker: None
        self.on_tap_lines: Callable[[TapLines], None] = lambda lines: None
        self.is_draining = False
        self._start = Start(config, path, flags, tuple(sys.path))
        self._launch = launch
        self._shared = shared
        self._clock = clock  # seconds
        self._pause = pause
        self._failure: Exception | None = None
        self._changed = asyncio.Event()
        self._has_started = False
        self._tasks: list[asyncio.Task[None]] = []
        self._checking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns once all workers serve.

        All are prepared before the first one listens, and then all listen at once: clients that connect meanwhile would
        stay with the first. Raises ConfigError if the configuration is invalid, WorkerFailedError if a worker ends.
        """
        self._tasks = [spawn(self._keep(worker), f"worker {worker.number}") for worker in self.workers]
        try:
            await self._until(lambda: all(worker.is_prepared for worker in self.workers))
            first, *others = self.workers
            first.send(Serve())  # what only a start can find out is reported once
            await self._until(lambda: first.is_serving)
            for worker in others:
                worker.send(Serve())
            await self._until(lambda: all(worker.is_serving for worker in self.workers))
        except (ConfigError, WorkerFailedError):
            await self.drain(hurry=True)
            raise
        self._has_started = True
        self._checking = spawn(self._check_all(), "find hung workers")

    def families(self) -> Iterator[Family]:
        """The metrics of workers."""
        yield gauge("workers", "Workers that are configured", len(self.workers))
        yield gauge("workers_serving", "Workers that serve clients", sum(one.is_serving for one in self.workers))
        restarts = {str(number): count for number, count in self.restarts.items()}
        yield counter("worker_restarts", "How often a worker has ended and was started again", restarts, "worker")

    def hang_up(self) -> None:
        """Reload the file, and recover lost topic configs, in all workers."""
        for worker in self.workers:
            if worker.is_serving:
                worker.send(HangUp())

    async def drain(self, hurry: bool = False) -> None:
        """Returns once all workers have ended. Call it again to hurry."""
        if self._checking is not None:
            await stop(self._checking)
        self.is_draining = True
        for worker, task in zip(self.workers, self._tasks, strict=True):
            if worker.child is None:
                task.cancel()
            elif worker.is_serving:
                worker.send(Drain(hurry))
            else:
                worker.child.kill()
        limit_s = AFTER_DRAIN_S + (0.0 if hurry else self.config.connections.drain_timeout)
        _, late = await asyncio.wait(self._tasks, timeout=limit_s)
        if late:
            self._kill_all("it did not end in time")
            await asyncio.wait(late)

    def _kill_all(self, why: str) -> None:
        for worker in self.workers:
            if worker.child is not None:
                log.warning("worker killed", extra={"worker": worker.number, "detail": why})
                worker.child.kill()

    async def page(self, worker: Worker, target: str) -> Page | None:
        """A page of one worker; None if it does not serve, or does not respond in time."""
        return await self._ask(worker, PageRequest(target))

    async def sample(self, worker: Worker, wanted: frozenset[str]) -> Page | None:
        """What it does now, with these parts."""
        return await self._ask(worker, SampleRequest(wanted))

    async def _ask(self, worker: Worker, request: PageRequest | SampleRequest) -> Page | None:
        if not worker.is_serving:
            return None
        response: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
        worker.pages.append(response)
        worker.send(request)
        done, _ = await asyncio.wait([response], timeout=PAGE_LIMIT_S)
        return response.result() if done and not response.cancelled() else None

    async def _keep(self, worker: Worker) -> None:
        """Keep a worker running until the drain."""
        pause_s = FIRST_PAUSE_S
        while True:
            how = await self._run(worker)
            if self.is_draining:
                return
            if not self._has_started:
                self._fail(worker, how)
                return
            if worker.served_at is not None and self._clock() - worker.served_at >= STABLE_S:
                pause_s = FIRST_PAUSE_S
            self.restarts[worker.number] += 1
            log.error(
                "worker ended, it is started again",
                extra={"worker": worker.number, "detail": "; ".join(worker.mistakes) or how, "pause_s": pause_s},
            )
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _run(self, worker: Worker) -> str:
        """One process from start to end; how it ended."""
        worker.is_prepared = worker.is_serving = worker.was_ready = False
        worker.mistakes, worker.heard_at, worker.served_at = (), self._clock(), None
        config = self.config.for_worker(Place(worker.number, len(self.workers), self._shared))
        start = replace(self._start, config=config, is_replacement=self._has_started)
        try:
            worker.child = child = await self._launch(start, partial(self._received, worker))
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        how = await child.ended()
        worker.child, worker.is_serving = None, False
        while worker.pages:
            worker.pages.popleft().cancel()
        self.on_end(worker.number)
        return how

    def _received(self, worker: Worker, message: FromWorker) -> None:
        worker.heard_at = self._clock()
        match message:
            case Prepared():
                worker.is_prepared = True
                if self._has_started:
                    worker.send(Serve())
            case Serving():
                worker.is_serving, worker.served_at = True, self._clock()
                pid = worker.child.pid if worker.child is not None else None
                log.info("worker serving", extra={"worker": worker.number, "pid": pid})
                self.on_serving(worker)
            case Invalid(lines):
                worker.mistakes = lines
            case Applied(config):
                self.config = config
            case BrokersChanged(brokers):
                self._start = replace(self._start, brokers=brokers)
            case TapLines() as lines:
                self.on_tap_lines(lines)
            case PageResponse(page) if worker.pages:
                response = worker.pages.popleft()
                if not response.done():
                    response.set_result(page)
        self._changed.set()

    def _fail(self, worker: Worker, how: str) -> None:
        if self._failure is None:
            self._failure = (
                ConfigError(*worker.mistakes)
                if worker.mistakes
                else WorkerFailedError(f"worker {worker.number} ended before it served: {how}")
            )
        self._changed.set()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Raises the failure of a worker."""
        while not is_so():
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()

    async def _check_all(self) -> None:
        """Kill workers that no longer run their event loop; whoever waits for one would wait forever."""
        checked_at = self._clock()
        while True:
            await self._pause(CHECK_INTERVAL_S)
            now = self._clock()
            if now - checked_at < 2 * CHECK_INTERVAL_S:  # else this process itself was stopped
                self._check(now)
            checked_at = now

    def _check(self, now: float) -> None:
        for worker in self.workers:
            limit_s = HUNG_S if worker.is_serving else START_LIMIT_S
            if worker.child is not None and now - worker.heard_at > limit_s:
                detail = f"it gave no sign of life for {limit_s:g} s"
                log.error("worker hangs, it is killed", extra={"worker": worker.number, "detail": detail})
                worker.child.kill()
