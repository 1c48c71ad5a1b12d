"""The watchdog: it says that the event loop does not run, why, and when it runs again."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.proxy.runtime import threads as module
from kafka_sidecar.proxy.runtime.threads import Threads, Watchdog


@calls_plug_in(lambda of: Call("policy", of["name"], "validate", "orders"))
def call_plug_in(name: str, seconds: float) -> None:
    time.sleep(seconds)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.1)
    monkeypatch.setattr(module, "OVERDUE_S", 0.3)


async def watched(caplog: pytest.LogCaptureFixture, seconds: float) -> tuple[Watchdog, list[logging.LogRecord], int]:
    """What is logged of a plug-in that blocks the loop, and how many of the lines while it does."""
    delays: list[float] = []
    watchdog = Watchdog(Threads(1), delays.append)
    watchdog.start()
    await asyncio.sleep(0.3)
    with caplog.at_level(logging.INFO):
        call_plug_in("slow", seconds)
        meanwhile = len(caplog.records)
        await asyncio.sleep(0.3)
    watchdog.stop()
    assert max(delays) > seconds - 0.15
    return watchdog, caplog.records, meanwhile


async def test_what_blocks_the_loop_is_logged_while_it_does_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    watchdog, lines, meanwhile = await watched(caplog, 1.5)
    assert [line.getMessage() for line in lines] == ["event loop blocked", "event loop runs again"]
    assert meanwhile == 1
    assert (lines[0].policy, lines[0].hook, lines[0].topic) == ("slow", "validate", "orders")  # type: ignore[attr-defined]
    assert any("call_plug_in" in frame for frame in lines[0].stack)  # type: ignore[attr-defined]
    assert 1.3 < lines[1].duration_s < 5  # type: ignore[attr-defined]
    assert watchdog.stops == {"policy slow": 1}


async def test_a_loop_that_runs_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    watchdog, lines, _ = await watched(caplog, 0.0)
    assert not [line for line in lines if "event loop" in line.getMessage()]
    assert not watchdog.stops


async def test_a_stop_that_no_thread_could_see_is_reported_when_it_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watchdog, "_see", lambda *_: None)
    watchdog, lines, meanwhile = await watched(caplog, 0.7)
    assert meanwhile == 0
    assert [line.getMessage() for line in lines] == ["event loop blocked", "event loop runs again"]
    assert watchdog.stops == {"none": 1}


async def test_a_thread_whose_work_only_sleeps_is_replaced() -> None:
    threads, done = Threads(1), [False]
    sleeper = threads.submit("sleeps", lambda: time.sleep(3))
    await asyncio.sleep(0.6)
    waiting = threads.submit("fast", lambda: done.append(True))
    await asyncio.sleep(0.2)
    assert done == [False]
    threads.replace_sleeping()
    async with asyncio.timeout(2):
        await asyncio.wrap_future(waiting.future)
    assert threads._sleeping == {sleeper}
