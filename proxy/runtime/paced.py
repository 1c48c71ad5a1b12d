"""Work that may come thousandfold in one turn of the event loop: a part of it is done in later turns, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


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

    def finish(self) -> None:
        """Call all that waits."""
        while self._waiting:
            self._waiting.popleft()()

    def _next_turn(self) -> None:
        self._done = min(len(self._waiting), self._per_turn)
        if self._done:
            asyncio.get_running_loop().call_soon(self._next_turn)
        for _ in range(self._done):
            self._waiting.popleft()()
