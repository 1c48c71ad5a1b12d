"""What is done in a thread."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from kafka_sidecar.proxy.runtime.threads import THREADS, drain, submit


async def test_work_in_a_thread_leaves_the_loop_to_others() -> None:
    threads: list[str] = []
    await asyncio.wrap_future(submit(lambda: threads.append(threading.current_thread().name)))
    assert threads[0].startswith("batches")


async def test_draining_waits_for_all_submitted_work() -> None:
    done: list[int] = []
    for number in range(5):
        submit(partial(done.append, number))
    await drain(5.0)
    assert sorted(done) == [0, 1, 2, 3, 4]


async def test_draining_waits_no_longer_than_its_limit_and_drops_no_work() -> None:
    go_on = threading.Event()
    done: list[int] = []

    def work(number: int) -> None:
        go_on.wait(5.0)
        done.append(number)

    for number in range(2 * THREADS):  # half of them are still queued when the limit is reached
        submit(partial(work, number))
    await drain(0.01)
    assert not done
    go_on.set()
    await drain(5.0)
    assert sorted(done) == list(range(2 * THREADS))


async def test_draining_waits_for_work_whose_caller_was_cancelled() -> None:
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(5.0)
        done.set()

    waiter = asyncio.wrap_future(submit(work))
    await asyncio.to_thread(started.wait, 5.0)
    waiter.cancel()
    draining = asyncio.ensure_future(drain(5.0))
    await asyncio.sleep(0)
    go_on.set()
    await draining
    assert done.is_set()


async def test_what_work_raises_reaches_its_caller_and_stops_no_other_work() -> None:
    def fail() -> None:
        raise ValueError("x")

    submit(fail)
    with pytest.raises(ValueError, match="x"):
        await asyncio.wrap_future(submit(fail))
    await drain(5.0)
    done = threading.Event()
    await asyncio.wrap_future(submit(done.set))
    assert done.is_set()
