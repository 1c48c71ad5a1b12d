"""How the needs of exchanges are met."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf

import pytest

from kafka_sidecar.plugins.effects import TURN, Need, TimeLeft, Work, asker
from kafka_sidecar.proxy.relay.exchange import TopicIds
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import Threads

WAIT_S = 5.0
COUNT = 2


def started(count: int = COUNT) -> Performer:
    return Performer(LoopBudget(), Threads(count))


def occupied(performer: Performer) -> threading.Event:
    """Other connections use all threads until the event is set."""
    gate = threading.Event()
    for number in range(1, COUNT + 2):
        performer.perform(Work(lambda: gate.wait(WAIT_S), is_light=number > COUNT), number)
    return gate


async def test_work_is_done_in_a_thread_and_its_result_is_the_answer() -> None:
    performer = started()
    assert await performer.perform(Work(threading.get_ident)) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await performer.perform(Work(lambda: 1 / 0))


async def test_work_that_raises_leaves_nothing_to_the_garbage_collector() -> None:
    held: list[weakref.ref[set[int]]] = []

    def work() -> None:
        inflated = set[int]()
        held.append(weakref.ref(inflated))
        raise ValueError

    performer = started(1)
    gc.disable()
    try:
        with suppress(ValueError):
            await performer.perform(Work(work))
        assert await performer.perform(Work(lambda: 3)) == 3  # the thread has gone on
        await asyncio.sleep(0)
        assert held[0]() is None
    finally:
        gc.enable()


async def test_work_that_would_end_the_process_is_an_error() -> None:
    def exits() -> None:
        raise SystemExit

    with pytest.raises(RuntimeError, match="work raised SystemExit"):
        await started().perform(Work(exits))


@pytest.mark.parametrize("must_run", [False, True])
async def test_work_whose_result_is_not_needed_is_done_only_if_it_must_run(must_run: bool) -> None:
    performer, done = started(), threading.Event()
    gate = occupied(performer)
    needless = performer.perform(Work(done.set, must_run))
    needless.cancel()
    await asyncio.wait([needless])
    gate.set()
    await performer.perform(Work(lambda: None))
    assert done.is_set() is must_run


async def test_work_that_must_run_waits_for_that_of_the_same_connection_whatever_it_belongs_to() -> None:
    performer, done = started(), list[str]()
    gate = threading.Event()

    def first() -> None:
        gate.wait(WAIT_S)
        done.append("response")

    performer.perform(Work(first, must_run=True), 7)
    others = [performer.perform(Work(lambda: done.append("other"), must_run=True), 7, one) for one in (True, False)]
    await performer.perform(Work(gate.set), 7, is_request=True)  # another direction
    await asyncio.gather(*others)
    assert done == ["response", "other", "other"]


@pytest.mark.parametrize("must_run", [False, True])
async def test_what_blocks_in_a_thread_ends_at_the_time_limit_for_the_exchange(must_run: bool) -> None:
    performer, gate = started(), threading.Event()
    limit = TimeLeft("validation", 0.01, inf)
    with pytest.raises(TimeoutError):
        await performer.perform(Work(lambda: gate.wait(WAIT_S), must_run, limit=limit))
    assert limit.work_s <= 0
    assert performer.threads.time_limits == {("validation", "work"): 1}
    with pytest.raises(TimeoutError):  # nothing is left for the next one
        await performer.perform(Work(lambda: None, limit=limit), 2)
    gate.set()


async def test_what_waits_too_long_for_a_thread_is_never_done() -> None:
    performer, done = started(), threading.Event()
    gate = occupied(performer)
    limit = TimeLeft("interception", inf, 0.01)
    with pytest.raises(TimeoutError):
        await performer.perform(Work(done.set, limit=limit))
    assert performer.threads.time_limits == {("interception", "thread"): 1}
    gate.set()
    await performer.perform(Work(lambda: None))
    assert not done.is_set()


async def test_work_takes_off_its_time_limit_what_it_has_taken() -> None:
    now = 0.0

    def work() -> str:
        nonlocal now
        now += 3.0
        return "done"

    performer = Performer(LoopBudget(), Threads(1, lambda: now))
    limit = TimeLeft("validation", 10.0, 4.0)
    assert await performer.perform(Work(work, limit=limit)) == "done"
    assert (limit.work_s, limit.wait_s) == (7.0, 4.0)


@dataclass(frozen=True, slots=True)
class Fetched(Need):
    limit: TimeLeft | None = None


async def test_what_a_policy_fetches_has_the_time_limit_of_the_request() -> None:
    performer, came = started(), asyncio.Event()
    performer.add(Fetched, lambda need: came.wait())
    limit = TimeLeft("validation", 0.01, inf)
    with pytest.raises(TimeoutError):
        await performer.perform(Fetched(limit))
    assert performer.threads.time_limits == {("validation", "fetch"): 1}
    came.set()
    assert await performer.perform(Fetched())


async def test_after_a_turn_others_have_run_and_the_budget_is_new() -> None:
    budget, ran = LoopBudget(), asyncio.Event()
    budget.spent_s = 1.0
    performer = Performer(budget, Threads(1))
    turn = performer.perform(TURN)
    asyncio.get_running_loop().call_soon(ran.set)
    await turn
    assert ran.is_set()
    assert budget.spent_s == 0
    performer.perform(TURN).cancel()
    await asyncio.sleep(0)


def _append(order: list[str], name: str, _: object) -> None:
    order.append(name)


async def test_one_connection_after_the_other_has_a_turn() -> None:
    performer, order = started(), list[str]()
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
    performer = started()

    async def find(need: TopicIds) -> dict[str, bytes]:
        return dict.fromkeys(need.names, b"id")

    performer.add(TopicIds, find)
    assert await performer.perform(TopicIds(("orders",))) == {"orders": b"id"}


async def test_a_fetch_knows_the_connection_for_which_it_is_made() -> None:
    @dataclass(frozen=True)
    class Fetch(Need):
        """Something that is fetched."""

    async def meet(need: Fetch) -> int | None:
        return await asyncio.ensure_future(later())  # those that it starts know it too

    async def later() -> int | None:
        return asker.get()

    performer = started()
    performer.add(Fetch, meet)
    assert await asyncio.gather(*(performer.perform(Fetch(), number) for number in (7, 8))) == [7, 8]
    assert asker.get() is None
