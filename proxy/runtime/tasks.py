"""Background tasks, of which a reference is kept until they end and a crash is logged; and calls spread over turns of
the event loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)
_running: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background task crashed", exc_info=error, extra={"task": task.get_name()})


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Paced:
    """Calls of one kind, at most ``per_turn`` of them in one turn."""

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._done = 0  # in this turn
        self._waiting: deque[Callable[[], None]] = deque()

    def do(self, call: Callable[[], None]) -> None:
        """Call at once, or in a later turn."""
        if not self._done:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._done >= self._per_turn:
            self._waiting.append(call)
            return
        self._done += 1
        call()

    @property
    def has_waiting(self) -> bool:
        """Whether calls wait for a later turn."""
        return bool(self._waiting)

    def finish(self) -> None:
        """Call all that waits, and from now on each at once."""
        self._per_turn = sys.maxsize
        while self._waiting:
            self._waiting.popleft()()

    def _next_turn(self) -> None:
        self._done = min(len(self._waiting), self._per_turn)
        if self._done:
            asyncio.get_running_loop().call_soon(self._next_turn)
        for _ in range(self._done):
            self._waiting.popleft()()
