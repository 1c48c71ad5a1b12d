"""Background tasks: none is lost, and crashes are logged."""

from __future__ import annotations

import asyncio
import gc
from functools import partial

import pytest

from kafka_sidecar.proxy.runtime.tasks import Paced, spawn, stop


async def test_a_task_without_other_references_runs_to_its_end() -> None:
    go_on, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        done.set()

    spawn(work(), "work")
    await asyncio.sleep(0)
    gc.collect()
    go_on.set()
    async with asyncio.timeout(5):
        await done.wait()


async def test_a_crash_is_logged_with_its_traceback_and_the_tasks_name(caplog: pytest.LogCaptureFixture) -> None:
    async def crash() -> None:
        raise KeyError("oops")

    await asyncio.wait([spawn(crash(), "crash")])
    (record,) = caplog.records
    assert record.message == "background task crashed"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)
    assert vars(record)["task"] == "crash"


async def test_a_stopped_task_is_cancelled_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        await asyncio.sleep(3600)

    tasks = [spawn(work(), "work") for _ in range(3)]
    await asyncio.sleep(0)
    await stop(*tasks)
    assert all(task.cancelled() for task in tasks)
    assert caplog.records == []


async def test_ended_tasks_can_be_stopped() -> None:
    async def work() -> None:
        return

    task = spawn(work(), "work")
    await asyncio.sleep(0)
    await stop(task)
    await stop()
    assert task.done()


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
