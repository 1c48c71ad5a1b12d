"""How the needs of exchanges are met."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from kafka_sidecar.proxy.relay.exchange import TURN, TopicIds, Work
from kafka_sidecar.proxy.relay.loop_budget import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import THREADS, submit


async def test_work_is_done_in_a_thread_and_its_result_is_the_answer() -> None:
    performer = Performer(LoopBudget())
    assert await performer.perform(Work(threading.get_ident)) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await performer.perform(Work(lambda: 1 / 0))


@pytest.mark.parametrize("must_run", [False, True])
async def test_work_that_nobody_waits_for_is_done_only_if_it_must_run(must_run: bool) -> None:
    gate, done = threading.Event(), threading.Event()
    for _ in range(THREADS):
        submit(lambda: gate.wait(5))
    Performer(LoopBudget()).perform(Work(done.set, must_run)).cancel()
    await asyncio.sleep(0)
    gate.set()
    await asyncio.wrap_future(submit(lambda: None))
    assert done.is_set() is must_run


async def test_after_a_turn_others_have_run_and_the_budget_is_new() -> None:
    budget, ran = LoopBudget(), asyncio.Event()
    budget.spent_s = 1.0
    turn = Performer(budget).perform(TURN)
    asyncio.get_running_loop().call_soon(ran.set)
    await turn
    assert ran.is_set()
    assert budget.spent_s == 0
    Performer(budget).perform(TURN).cancel()
    await asyncio.sleep(0)


def _append(order: list[str], name: str, _: object) -> None:
    order.append(name)


async def test_one_connection_after_the_other_has_a_turn() -> None:
    performer, order = Performer(LoopBudget()), list[str]()
    turns = [performer.perform(TURN) for _ in range(3)]
    for number, turn in enumerate(turns):
        turn.add_done_callback(partial(_append, order, f"turn {number}"))
    turns[1].cancel()
    for number in range(6):
        await asyncio.sleep(0)
        order.append(f"iteration {number}")
    assert [one for one in order if one.startswith("turn")] == ["turn 1", "turn 0", "turn 2"]
    assert order.index("turn 2") > order.index("turn 0") + 1  # in another iteration of the loop


async def test_a_need_is_met_by_what_was_added_for_its_type() -> None:
    performer = Performer(LoopBudget())

    async def find(need: TopicIds) -> dict[str, bytes]:
        return dict.fromkeys(need.names, b"id")

    performer.add(TopicIds, find)
    assert await performer.perform(TopicIds(("orders",))) == {"orders": b"id"}
