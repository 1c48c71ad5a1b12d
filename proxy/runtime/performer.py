"""Does what exchanges need: the one place where a `Need` becomes a wait, a thread or a request.

What plug-ins have to wait for is fetched once for all that wait for the same, with a time limit (design D8).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NoReturn, Protocol

from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.effects import Need, TimeLeft, Turn, Work, asker
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.runtime.threads import Job, Threads


class Performer:
    """Performs needs by their type; features add how theirs are met."""

    def __init__(self, budget: LoopBudget, threads: Threads) -> None:
        self._budget = budget
        self._turns: deque[asyncio.Future[None]] = deque()
        self.threads = threads
        self._running: set[asyncio.Task[Any]] = set()
        self._ways: dict[type[Need], Callable[[Any], Awaitable[Any]]] = {}

    def add(self, need: type[Need], meet: Callable[[Any], Awaitable[Any]]) -> None:
        """Meet needs of this type by awaiting ``meet(need)``; what it raises is raised in the exchange."""
        self._ways[need] = meet

    def perform(self, need: Need, connection: int = 0, is_request: bool = False) -> asyncio.Future[Any]:
        """Begin at once. Cancel the future if its result is no longer needed; `Work` that must run is done even so.

        ``connection`` and ``is_request`` are the lane of work in threads.
        """
        if isinstance(need, Turn):
            return self._wait_for_turn()
        if isinstance(need, Work):
            limit = need.limit
            if limit is not None and min(limit.work_s, limit.wait_s) <= 0 and not need.must_run:
                return self._spawn(self._time_out(limit, "work" if limit.work_s <= 0 else "thread"), need)
            lane = connection, is_request and not need.must_run
            job = self.threads.submit(lane, need.run, need.is_light, need.goes_on)
            task = self._spawn(self._await_job(job, limit), need)
            task.add_done_callback(partial(self._let_go, job, need))
            return task
        return self._spawn(self._meet(need, connection), need)

    def _spawn(self, work: Coroutine[Any, Any, Any], need: Need) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=f"meet {type(need).__name__}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _wait_for_turn(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._turns.append(turn)
        if len(self._turns) == 1:
            loop.call_soon(self._give_turn)
        return turn

    def _give_turn(self) -> None:
        """One connection in each iteration of the loop: otherwise each that waits would use up a budget of its own."""
        self._budget.renew()
        while self._turns and (turn := self._turns.popleft()).done():
            continue
        if not turn.done():
            turn.set_result(None)
        if self._turns:
            asyncio.get_running_loop().call_soon(self._give_turn)

    async def _meet(self, need: Need, connection: int) -> Any:
        asker.set(connection)
        limit: TimeLeft | None = getattr(need, "limit", None)
        if limit is None:
            return await self._ways[type(need)](need)
        began = self.threads.clock()
        try:
            async with asyncio.timeout(limit.work_s):
                return await self._ways[type(need)](need)
        except TimeoutError:
            await self._time_out(limit, "fetch")
        finally:
            limit.work_s -= self.threads.clock() - began

    async def _await_job(self, job: Job, limit: TimeLeft | None) -> Any:
        result = asyncio.wrap_future(job.future)
        result.add_done_callback(_retrieve)  # its exception, where no exchange waits for it
        error = None
        try:
            while not result.done():
                await asyncio.wait([result], timeout=None if limit is None else await self._time_left(job, limit))
            error = result.exception()
            if error is not None and not isinstance(error, Exception):
                raise RuntimeError(f"work raised {type(error).__name__}") from error  # it must not end the event loop
            return result.result()
        finally:
            self._charge(job, limit)
            del job, result, error  # in this frame, which the error's traceback keeps: see Threads

    async def _time_left(self, job: Job, limit: TimeLeft) -> float:
        """Seconds after which to ask again. Raises TimeoutError."""
        now, started_at = self.threads.clock(), job.started_at
        if started_at is None:
            left_s = limit.wait_s - (now - job.submitted_at)
            return min(left_s, limit.work_s) if left_s > 0 else await self._time_out(limit, "thread")
        left_s = limit.work_s - (now - started_at)
        return left_s if left_s > 0 else await self._time_out(limit, "work")

    async def _time_out(self, limit: TimeLeft, waited_for: str) -> NoReturn:
        self.threads.time_limits[limit.stage, waited_for] += 1
        raise TimeoutError

    def _charge(self, job: Job, limit: TimeLeft | None) -> None:
        if limit is not None:
            now = self.threads.clock()
            started_at = now if job.started_at is None else job.started_at
            limit.wait_s -= started_at - job.submitted_at
            limit.work_s -= (now if job.ended_at is None else job.ended_at) - started_at

    def _let_go(self, job: Job, work: Work, task: asyncio.Task[Any]) -> None:
        """The exchange goes on, or the connection has ended."""
        if not job.future.done():
            (self.threads.abandon if work.must_run else self.threads.cancel)(job)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


MAX_FETCH_S = 5.0  # below validation.timeout: that a fetch takes too long is the plug-in's failure
GRACE_S = 1.0  # in which a fetch that is over its limit may end by itself
log = logging.getLogger(__name__)


class Resolver(Protocol):
    """A plug-in that raises `Unresolved`."""

    async def resolve(self, key: object) -> None: ...


class PlugInFetches:
    """The fetches of one kind of plug-ins that are under way in a process."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        # By id() of the plug-in: two of one class may be equal, as dataclasses are, or not hashable.
        self._running: dict[tuple[int, object], asyncio.Task[None]] = {}

    async def resolve(self, name: str, plug_in: Resolver, key: object) -> None:
        """Let a plug-in fetch what it needs. Raises nothing: one that has not got it says so when it is asked."""
        fetch = id(plug_in), key
        if fetch not in self._running:
            self._running[fetch] = spawn(self._fetched(name, plug_in, key), f"fetch what a {self._kind} needs")
            self._running[fetch].add_done_callback(lambda _: self._running.pop(fetch, None))
        # The connection may end meanwhile: others wait for the same. A fetch may not listen to being cancelled.
        await asyncio.wait([self._running[fetch]], timeout=MAX_FETCH_S + GRACE_S)

    @calls_plug_in(lambda of: Call(of["self"]._kind, of["name"], "resolve"))
    async def _fetched(self, name: str, plug_in: Resolver, key: object) -> None:
        try:
            async with asyncio.timeout(MAX_FETCH_S):
                await plug_in.resolve(key)
        except (Exception, SystemExit):  # whatever a plug-in raises is its failure, not the session's
            of_policy, of_interceptor = (name if self._kind == kind else None for kind in ("policy", "interceptor"))
            log.exception("plug-in fetch failed", extra={"policy": of_policy, "interceptor": of_interceptor})
