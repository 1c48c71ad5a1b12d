"""Whose login is verified next, and how long a rejection waits."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from kafka_sidecar.proxy.runtime.logins import (
    FAILURES_A_STEP,
    HALF_LIFE_S,
    MAX_ADDRESSES,
    MAX_PAUSE_S,
    REJECTED_PAUSE_S,
    Failures,
    Verifications,
)


async def test_what_a_verification_returns_or_raises_comes_from_its_thread() -> None:
    thread = Verifications()
    assert await thread.run(lambda: b"challenge") == b"challenge"
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 / 0)


async def test_nothing_that_waits_is_verified_after_the_end() -> None:
    thread, done = Verifications(), list[int]()
    first = asyncio.ensure_future(thread.run(lambda: time.sleep(0.05)))
    second = asyncio.ensure_future(thread.run(lambda: done.append(2)))
    await asyncio.sleep(0.01)
    thread.stop()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    assert done == []


async def test_addresses_take_turns_and_the_newest_of_each_is_the_first() -> None:
    thread, done = Verifications(), list[str]()
    await asyncio.gather(
        *(thread.run(lambda at=at: done.append(f"a{at}"), "192.0.2.1") for at in range(5)),  # type: ignore[misc]
        *(thread.run(lambda at=at: done.append(f"b{at}"), "192.0.2.2") for at in range(2)),  # type: ignore[misc]
    )
    assert done == ["a0", "a4", "b1", "a3", "b0", "a2", "a1"]


async def test_what_is_quick_does_not_wait_for_passwords() -> None:
    thread, gate = Verifications(), threading.Event()
    passwords = [asyncio.ensure_future(thread.run(gate.wait, "192.0.2.1")) for _ in range(100)]
    assert await asyncio.wait_for(thread.run(lambda: 1, "192.0.2.1", True), 1.0) == 1
    assert not any(one.done() for one in passwords)
    gate.set()
    await asyncio.gather(*passwords)


async def test_one_that_is_cancelled_lets_the_next_one_run() -> None:
    thread = Verifications()
    first, second = (asyncio.ensure_future(thread.run(lambda: time.sleep(0.05), "192.0.2.1")) for _ in range(2))
    third = asyncio.ensure_future(thread.run(lambda: 3, "192.0.2.1"))
    await asyncio.sleep(0.01)
    first.cancel()
    second.cancel()
    assert await third == 3


def test_the_more_an_address_fails_the_longer_it_waits_and_others_do_not() -> None:
    now = 0.0
    failures = Failures(lambda: now)
    pauses = [failures.pause_s("192.0.2.1") for _ in range(20 * FAILURES_A_STEP)]
    assert pauses == sorted(pauses)
    assert pauses[: FAILURES_A_STEP - 1] == [REJECTED_PAUSE_S] * (FAILURES_A_STEP - 1)
    assert pauses[-1] == MAX_PAUSE_S
    assert failures.pause_s("192.0.2.2") == REJECTED_PAUSE_S
    now += 20 * HALF_LIFE_S
    assert failures.pause_s("192.0.2.1") == REJECTED_PAUSE_S


def test_failures_of_many_addresses_are_forgotten_the_oldest_first() -> None:
    failures = Failures(lambda: 0.0)
    for _ in range(FAILURES_A_STEP):
        failures.pause_s("192.0.2.1")
    for number in range(MAX_ADDRESSES):
        failures.pause_s(f"2001:db8::{number:x}")
    assert failures.pause_s("192.0.2.1") == REJECTED_PAUSE_S
