"""Judging and intercepting give way: after some milliseconds of it in the event loop, all else has its turn."""

from __future__ import annotations

import asyncio

LONGEST_TURN_S = 0.01


class Pace:
    """The time that all connections together have spent on it since others last had their turn."""

    __slots__ = ("spent_s",)

    def __init__(self) -> None:
        self.spent_s = 0.0

    @property
    def must_rest(self) -> bool:
        return self.spent_s >= LONGEST_TURN_S

    async def rest(self) -> None:
        self.spent_s = 0.0
        await asyncio.sleep(0)
