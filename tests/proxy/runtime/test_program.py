"""Signals, and what a process logs at its start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.runtime.program import Stop, runner, warn_if_slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_begins_the_drain_and_the_second_one_ends_it(number: signal.Signals) -> None:
    stop = Stop()
    stop.on_signals()
    async with asyncio.timeout(5):
        os.kill(os.getpid(), number)
        await stop.drain.wait()
        assert not stop.hurry.is_set()
        os.kill(os.getpid(), number)
        await stop.hurry.wait()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(one)


@pytest.mark.parametrize("is_installed", [True, False])
def test_uvloop_runs_the_program_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, is_installed: bool) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    with runner() as program:
        assert (type(program.get_loop()).__module__ == "uvloop") is is_installed


@pytest.mark.parametrize(("build", "warnings"), [("compiled", 0), ("python", 1), ("partly compiled", 1)])
def test_a_build_that_is_not_compiled_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, build: str, warnings: int
) -> None:
    monkeypatch.setattr(compiled, "in_use", lambda: build)
    warn_if_slow()
    assert [vars(record)["build"] for record in caplog.records] == [build] * warnings
