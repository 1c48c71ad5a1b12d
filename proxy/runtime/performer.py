"""Does what exchanges need: the one place where a `Need` becomes a wait, a thread or a request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from kafka_sidecar.proxy.relay.exchange import Need, Turn, Work
from kafka_sidecar.proxy.relay.loop_budget import LoopBudget
from kafka_sidecar.proxy.runtime.threads import submit


class Performer:
    """Performs needs by their type; features add how theirs are met."""

    def __init__(self, budget: LoopBudget) -> None:
        self._budget = budget
        self._turns: deque[asyncio.Future[None]] = deque()
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
            return self._wait_for_turn()
        task = asyncio.get_running_loop().create_task(self._meet(need), name=f"meet {type(need).__name__}")
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

    async def _meet(self, need: Need) -> Any:
        return await self._ways[type(need)](need)
