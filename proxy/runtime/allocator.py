"""Limits of glibc's allocator, so that large reads do not unmap and map memory each time.

A read of some hundred kilobytes is above glibc's threshold for a mapping of its own: it is mapped, faulted in page by
page and unmapped each time, which costs more than relaying it. The same applies to a frame of megabytes with a large
message. Both limits are needed; one alone changes nothing (docs/reference/benchmarks.md has the figures). What is kept
so is returned by `release_unused_memory`, which the sweep of connections calls.

All threads share one arena. glibc would give each its own, and malloc_trim returns nothing of the free end of such an
arena (docs/decisions/0025-memory-of-threads.md).
"""

from __future__ import annotations

import ctypes
import gc
import linecache
from functools import cache
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of mallopt(3)
# For all threads together: with 32 MiB, two that validate batches of 8 MB returned their memory after each one.
TRIM_THRESHOLD_BYTES = 256 << 20
MMAP_THRESHOLD_BYTES = 16 << 20  # larger ones would leave holes that nothing fits


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


def release_unused_memory() -> None:
    """Return all unused pages to the system: glibc would keep those between used ones."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
