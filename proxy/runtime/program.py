"""Basics of every process of the sidecar: event loop, signals that stop it, glibc's allocator, one line once it serves.

Large reads must not unmap and map memory each time. A read of some hundred kilobytes is above glibc's threshold for a
mapping of its own: it is mapped, faulted in page by page and unmapped each time, which costs more than relaying it. The
same applies to a frame of megabytes with a large message. Both limits are needed; one alone changes nothing
(bench/README.md has the figures). What is kept so is returned by `release_unused_memory`, which the sweep
of connections calls.

All threads share one arena. glibc would give each its own, and malloc_trim returns nothing of the free end of such an
arena (docs/decisions/0025-memory-of-threads.md).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import linecache
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.config.loading import Config

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of mallopt(3)
# For all threads together: with 32 MiB, two that validate batches of 8 MB returned their memory after each one.
TRIM_THRESHOLD_BYTES = 256 << 20
MMAP_THRESHOLD_BYTES = 16 << 20  # larger ones would leave holes that nothing fits


log = logging.getLogger("kafka_sidecar")


def runner() -> asyncio.Runner:
    """A runner with uvloop if it is installed, else with asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


class Stop:
    """The first signal begins the drain, a second one ends it."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.hurry = asyncio.Event()

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        log.info("stopping", extra={"signal": number.name})
        (self.hurry if self.drain.is_set() else self.drain).set()


def log_serving(config: Config, path: Path | None, admin_address: str, workers: int | None = None) -> None:
    """Clients and the admin port are served."""
    log.info(
        "serving",
        extra={
            "address": config.listen,
            "admin": admin_address,
            "bootstrap_servers": config.bootstrap_servers,
            "build": compiled.in_use(),
            "config": str(path) if path else None,
            "version": __version__,
            "workers": workers,
        },
    )


def warn_if_slow() -> None:
    """Installing without a C compiler succeeds, and nothing else says that it gives the slow build."""
    if (build := compiled.in_use()) != "compiled":
        detail = "policies and interceptors need ten to thirty times the CPU: install with a C compiler"
        log.warning("loops over records not compiled", extra={"build": build, "detail": detail})


def share_arena() -> None:
    """Let all threads of this process use the first one's arena. An arena that exists stays: call it before any thread
    is started."""
    if (libc := _glibc()) is not None:
        libc.mallopt(M_ARENA_MAX, 1)


def configure_allocator() -> None:
    """Release the garbage of start-up, and set the limits, if the C library is glibc."""
    linecache.clearcache()  # the sources in which pydantic has looked for docstrings
    gc.collect()
    gc.freeze()
    release_unused_memory()
    if (libc := _glibc()) is not None:
        libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)


@contextmanager
def collections_paused() -> Iterator[None]:
    """While very many values are made that are soon gone again, and are part of no cycle.

    Otherwise those that are there at a collection count as old ones, and with enough of these all objects are looked
    at in one turn of the event loop: a tenth of a second with 10,000 connections.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release_unused_memory() -> None:
    """Return all unused pages to the system: glibc would keep those between used ones."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
