"""Runs in the sidecar that is attacked, whatever its version: notes the longest turn of its event loop.

A timer is due every two milliseconds. What has passed between two of its calls is one long turn, and at most two
milliseconds of short ones: time of a clock, CPU of the loop's thread, and time in which this thread waited for a core.
Without the last one a figure holds on a loaded machine, too.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import os
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

PAUSE_S = 0.002
# The longest turn in seconds: of a clock; of a clock, less the wait for a core; of CPU. NaN: turns are not noted yet.
PAGE = struct.Struct("=3d")
FRAMES = 4  # that are shown of each thread


class Turns:
    """Of one event loop, whose thread starts it."""

    def __init__(self, page: mmap.mmap, stacks_s: float) -> None:
        """``stacks_s``: of CPU; a longer turn is written to standard error with what ran in it. 0: none is."""
        self._page = page
        self._stacks_s = stacks_s
        self._waits = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._thread = threading.get_ident()
        self._last = self._now()
        self._seen: list[str] = []

    def start(self) -> None:
        asyncio.get_running_loop().call_later(PAUSE_S, self._tick)
        if self._stacks_s:
            threading.Thread(target=self._look, daemon=True).start()

    def _now(self) -> tuple[float, float, float]:
        waited_s = int(os.pread(self._waits, 100, 0).split()[1]) / 1e9
        return time.perf_counter(), waited_s, time.thread_time()

    def _tick(self) -> None:
        last, self._last = self._last, self._now()
        took_s, waited_s, cpu_s = (now - before for now, before in zip(self._last, last, strict=True))
        took_s -= PAUSE_S
        found = took_s, took_s - waited_s, cpu_s
        so_far = PAGE.unpack(self._page[: PAGE.size])
        if not math.isnan(so_far[0]):
            self._page[: PAGE.size] = PAGE.pack(*map(max, found, so_far))
        if self._stacks_s and max(found[1:]) > self._stacks_s and not math.isnan(so_far[0]):
            figures = "a turn of {:.0f} ms, {:.0f} without waits for a core, {:.0f} of CPU\n"
            sys.stderr.write(figures.format(*(one * 1e3 for one in found)) + "".join(self._seen))
        self._seen.clear()
        asyncio.get_running_loop().call_later(PAUSE_S, self._tick)

    def _look(self) -> None:
        while True:
            time.sleep(self._stacks_s / 4)
            if time.perf_counter() - self._last[0] > self._stacks_s / 2:
                for thread, frame in sys._current_frames().items():
                    if thread != threading.get_ident():
                        where = "loop" if thread == self._thread else "thread"
                        self._seen.append(f"  {where}\n{''.join(traceback.format_stack(frame, FRAMES))}")
                self._seen.append("  --\n")


def watched(run: Callable[..., Any], page: mmap.mmap, stacks_s: float) -> Callable[..., Any]:
    """`asyncio.Runner.run`, whose loop is watched."""

    def run_watched(self: asyncio.Runner, main: Coroutine[Any, Any, Any], **more: Any) -> Any:
        async def begin() -> Any:
            Turns(page, stacks_s).start()
            return await main

        return run(self, begin(), **more)

    return run_watched


if path := os.environ.get("HOSTILE_TURNS"):
    with Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), PAGE.size)
    asyncio.Runner.run = watched(asyncio.Runner.run, shared, float(os.environ["HOSTILE_STACKS_S"]))  # type: ignore[method-assign]
