"""Work that comes thousandfold: how much of it is done in one turn of the event loop, and in which order."""

from __future__ import annotations

import asyncio
from functools import partial

from kafka_sidecar.proxy.runtime.paced import Paced


async def test_what_is_over_the_number_of_a_turn_is_done_in_later_turns_in_order() -> None:
    done: list[int] = []
    paced = Paced(3)
    for number in range(8):
        paced.do(partial(done.append, number))
    seen = [len(done)]
    while len(done) < 9:
        await asyncio.sleep(0)
        if len(seen) == 1:
            paced.do(partial(done.append, 8))  # after those that wait, though this turn is another one
        seen.append(len(done))
    assert done == list(range(9))
    assert seen == [3, 6, 9]


async def test_after_a_turn_without_work_calls_are_made_at_once_again() -> None:
    done: list[int] = []
    paced = Paced(1)
    for number in range(3):
        paced.do(partial(done.append, number))
        assert done == list(range(number + 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_finish_does_at_once_what_waits() -> None:
    done: list[int] = []
    paced = Paced(1)
    for number in range(4):
        paced.do(partial(done.append, number))
    paced.finish()
    assert done == [0, 1, 2, 3]
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3]
