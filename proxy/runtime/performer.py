"""Does what exchanges need: the one place where a `Need` becomes a wait, a thread or a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafka_sidecar.proxy.relay.exchange import Need, Turn, Work
from kafka_sidecar.proxy.relay.loop_budget import LoopBudget
from kafka_sidecar.proxy.runtime.threads import submit


class Performer:
    """Performs needs by their type; features add how theirs are met."""

    def __init__(self, budget: LoopBudget) -> None:
        self._budget = budget
        self._running: set[asyncio.Task[Any]] = set()
        self._ways: dict[type[Need], Callable[[Any], Awaitable[Any]]] = {}

    def add(self, need: type[Need], meet: Callable[[Any], Awaitable[Any]]) -> None:
        """Meet needs of this type by awaiting ``meet(need)``; what it raises is raised in the exchange."""
        self._ways[need] = meet

    def perform(self, need: Need) -> asyncio.Future[Any]:
        """Begin at once. Cancel the future if its result is no longer needed; `Work` that must run is done even so."""
        if isinstance(need, Work):
            done = asyncio.wrap_future(submit(need.run))
            return asyncio.shield(done) if need.must_run else done
        if isinstance(need, Turn):
            self._budget.renew()
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(_finish, turn)
            return turn
        task = asyncio.get_running_loop().create_task(self._meet(need), name=f"meet {type(need).__name__}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _meet(self, need: Need) -> Any:
        return await self._ways[type(need)](need)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
