"""What is done in a thread."""

from __future__ import annotations

import threading

import pytest

from kafka_sidecar.codec.records import NewRecord, batches, built
from kafka_sidecar.proxy.runtime import threads
from kafka_sidecar.proxy.runtime.threads import in_thread, takes_long


def test_a_batch_of_many_records_takes_long_and_so_do_many_compressed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    (small,) = batches(built([NewRecord(b"v")] * 10, codec=4))
    assert not takes_long(small, 10)
    assert takes_long(small, 9)
    monkeypatch.setitem(threads.OFFLOADED, 4, len(small.data))
    assert takes_long(small, 10)


async def test_work_in_a_thread_leaves_the_loop_to_others() -> None:
    threads: list[str] = []
    await in_thread(lambda: threads.append(threading.current_thread().name))
    assert threads[0].startswith("batches")


async def test_what_was_given_to_the_threads_is_waited_for_but_not_for_ever() -> None:
    done: list[int] = []
    go_on = threading.Event()
    for number in range(5):
        threads.WORKERS.submit(done.append, number)
    await threads.settled(5.0)
    assert sorted(done) == [0, 1, 2, 3, 4]
    threads.WORKERS.submit(go_on.wait, 5.0)
    await threads.settled(0.05)
    go_on.set()
    await threads.settled(5.0)
