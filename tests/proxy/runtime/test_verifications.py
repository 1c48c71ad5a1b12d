"""The thread of logins."""

from __future__ import annotations

import asyncio
import time

import pytest

from kafka_sidecar.proxy.runtime.verifications import Verifications


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
