"""Signals, and what a process logs at its start."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.runtime.program import Stop, configure_allocator, runner, share_arena, warn_if_slow

# What threads have used and let go, in bytes of memory that the process has. The parts are below the limit for mappings
# of their own, and all of them together below the one for a free end of an arena.
THREADS = """
import threading
from pathlib import Path
from kafka_sidecar.proxy.runtime import program

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) << 12

program.share_arena()
program.configure_allocator()
before, used, end = resident(), threading.Barrier(9), threading.Event()

def work():
    parts = [b"x" * (1 << 20) for _ in range(16)]
    del parts
    used.wait()
    end.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
used.wait()
program.release_unused_memory()
print(resident() - before)
end.set()
"""


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


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    """Objects frozen by `tests/conftest.py` would hide those that `configure_allocator` freezes."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_existing_objects_are_frozen() -> None:
    assert gc.get_freeze_count() == 0
    configure_allocator()
    assert gc.get_freeze_count() > 0


def test_garbage_of_start_up_is_collected_first() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    Knot()
    configure_allocator()
    gc.unfreeze()
    assert not [thing for thing in gc.get_objects() if type(thing) is Knot]


def test_memory_that_threads_have_let_go_is_returned_while_they_live() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 8 << 20


def test_another_c_library_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    share_arena()
    configure_allocator()
    assert gc.get_freeze_count() > 0
