"""Work in threads: turns, lanes, what is cancelled, and threads that do not come back."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import pytest
from support.in_process import until

from kafka_sidecar.codec.checkpoint import StoppedError, checkpoint
from kafka_sidecar.proxy.runtime import threads as module
from kafka_sidecar.proxy.runtime.threads import MAX_REPLACED, Job, Threads

WAIT_S = 5.0  # for an event that comes


class Gate:
    """Work that runs until it is let go."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.began.set()
        assert self.go_on.wait(WAIT_S)


def busy(threads: Threads, count: int) -> list[Gate]:
    """Keep threads busy with long work of other connections."""
    gates = [Gate() for _ in range(count)]
    for gate in gates:
        threads.submit(gate, gate)
        assert gate.began.wait(WAIT_S)
    return gates


def results(*jobs: Job) -> list[object]:
    return [job.future.result(WAIT_S) for job in jobs]


def nothing() -> None:
    return


def test_work_is_done_in_a_thread() -> None:
    name, same = results(
        Threads(1).submit("a", lambda: threading.current_thread().name), Threads(1).submit("a", lambda: 3)
    )
    assert str(name).startswith("batches")
    assert same == 3


def test_what_work_raises_reaches_whoever_waits_and_stops_no_other_work() -> None:
    threads = Threads(1)
    failed = threads.submit("a", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failed.future.result(WAIT_S)
    assert results(threads.submit("a", lambda: 3)) == [3]


def test_work_that_raises_leaves_nothing_to_the_garbage_collector() -> None:
    """Its frames hold what a batch was inflated to, and the collector may not run for long."""
    held: list[weakref.ref[set[int]]] = []

    def work() -> None:
        inflated = set[int]()
        held.append(weakref.ref(inflated))
        raise ValueError

    gc.disable()
    try:
        threads = Threads(1)
        failed = threads.submit("a", work)
        assert isinstance(failed.future.exception(WAIT_S), ValueError)
        del failed
        assert results(threads.submit("a", lambda: 3)) == [3]  # the thread has gone on
        assert held[0]() is None
    finally:
        gc.enable()


def test_lanes_take_turns_however_much_work_one_of_them_has() -> None:
    threads, done = Threads(1), list[str]()
    (gate,) = busy(threads, 1)
    jobs = [threads.submit(lane, partial(done.append, lane)) for lane in "aaaabbc"]
    gate.go_on.set()
    results(*jobs)
    assert "".join(done) == "abcabaa"


def test_work_that_goes_on_with_what_was_inflated_comes_before_other_work() -> None:
    threads, done = Threads(1), list[str]()
    (gate,) = busy(threads, 1)
    jobs = [threads.submit(lane, partial(done.append, lane), goes_on=lane in "xy") for lane in "abxy"]
    gate.go_on.set()
    results(*jobs)
    assert sorted("".join(done[:2])) == ["x", "y"]
    assert done[2:] == ["a", "b"]


def test_the_work_of_a_lane_is_done_in_order_and_one_at_a_time() -> None:
    threads, done = Threads(4), list[int]()
    lock = threading.Lock()

    def work(number: int) -> None:
        assert lock.acquire(blocking=False)
        done.append(number)
        lock.release()

    results(*[threads.submit("a", partial(work, number), is_light=number % 3 == 0) for number in range(200)])
    assert done == list(range(200))


def test_long_work_leaves_a_thread_to_light_work() -> None:
    threads = Threads(2)
    gates = busy(threads, 2)
    long = threads.submit("a", lambda: "long")
    assert results(threads.submit("b", lambda: "light", is_light=True)) == ["light"]
    assert not long.future.done()
    gates[0].go_on.set()
    assert results(long) == ["long"]
    gates[1].go_on.set()


def test_light_work_uses_every_thread_that_is_free() -> None:
    threads, gates = Threads(2), [Gate() for _ in range(3)]
    for gate in gates:
        threads.submit(gate, gate, is_light=True)
    assert all(gate.began.wait(WAIT_S) for gate in gates)
    assert (threads.size, threads.busy, threads.queued) == (3, 3, 0)
    for gate in gates:
        gate.go_on.set()


async def test_cancelled_work_that_waits_is_never_done_and_the_next_of_its_lane_is() -> None:
    threads, done = Threads(1), list[str]()
    (gate,) = busy(threads, 1)
    first, second, third = [threads.submit("a", partial(done.append, name)) for name in "123"]
    assert threads.queued == 3
    threads.cancel(second)
    threads.cancel(first)
    assert threads.queued == 1
    gate.go_on.set()
    results(third)
    assert done == ["3"]
    with pytest.raises(CancelledError):
        first.future.result(0)


async def test_cancelled_work_that_runs_ends_at_its_next_checkpoint() -> None:
    threads, gate = Threads(1), Gate()

    def work() -> None:
        gate()
        checkpoint()

    job = threads.submit("a", work)
    assert gate.began.wait(WAIT_S)
    threads.cancel(job)
    gate.go_on.set()
    with pytest.raises(StoppedError):
        job.future.result(WAIT_S)
    assert results(threads.submit("a", checkpoint)) == [None]  # the flag is that of the job


async def test_a_thread_that_does_not_come_back_is_replaced_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    threads = Threads(1)
    (gate,) = busy(threads, 1)
    waits = threads.submit("b", lambda: "done")
    threads.cancel(next(iter(threads._running)))
    await until(lambda: threads.stuck == 1)
    assert results(waits) == ["done"]
    gate.go_on.set()
    await until(lambda: not threads.stuck and not threads.busy)
    light = [threads.submit(number, nothing, is_light=True) for number in range(50)]
    results(*light)
    await until(lambda: threads.size == 2)  # one is surplus


async def test_not_more_threads_are_replaced_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    threads, gates = Threads(1), list[Gate]()
    for number in range(MAX_REPLACED + 2):
        gates += busy(threads, 1)
        threads.cancel(max(threads._running, key=lambda job: job.submitted_at))
        await until(lambda stuck=number + 1: threads.stuck == stuck)  # type: ignore[misc]
    threads.submit("a", nothing)
    assert (threads.queued, threads.size) == (1, MAX_REPLACED + 2)
    for gate in gates:
        gate.go_on.set()


def test_the_time_that_work_waits_is_counted() -> None:
    now = 0.0
    threads = Threads(1, lambda: now)
    (gate,) = busy(threads, 1)
    job = threads.submit("a", nothing)
    now = 0.001
    gate.go_on.set()
    results(job)
    assert threads.waits_s == 0.001
    assert {bits: count for bits, count in enumerate(threads.waits) if count} == {0: 1, 10: 1}


async def test_draining_waits_for_all_work_but_not_longer_than_its_limit() -> None:
    threads, done = Threads(1), list[int]()
    (gate,) = busy(threads, 1)
    for number in range(3):
        threads.submit(number, partial(done.append, number))
    await threads.drain(0.01)
    assert not done
    gate.go_on.set()
    await threads.drain(WAIT_S)
    assert done == [0, 1, 2]


def samples(threads: Threads) -> dict[str, Any]:
    return {family.name: family.samples.get((), family.samples) for family in threads.families()}


def test_threads_what_they_do_and_what_waits_for_them_are_counted() -> None:
    threads, began, go_on = Threads(1), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        go_on.wait(5.0)

    jobs = [threads.submit("a", work)]
    assert began.wait(5.0)
    jobs.append(threads.submit("b", work))
    threads.time_limits["validation", "work"] = 3
    found = samples(threads)
    assert {name: found[f"threads{name}"] for name in ("", "_busy", "_stuck", "_queue")} == {
        "": 1, "_busy": 1, "_stuck": 0, "_queue": 1,
    }  # fmt: skip
    assert found["time_limits"] == {("validation", "work"): 3}
    assert sum(found["thread_wait_seconds"].counts) == 1
    go_on.set()
    for job in jobs:
        job.future.result(5.0)
    assert sum(samples(threads)["thread_wait_seconds"].counts) == 2
