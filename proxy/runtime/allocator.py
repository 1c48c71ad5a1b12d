"""Limits of glibc's allocator, so that large reads do not unmap and map memory each time.

A read of some hundred kilobytes is above glibc's threshold for a mapping of its own: it is mapped, faulted in page by
page and unmapped each time, which costs more than relaying it. The same applies to a frame of megabytes with a large
message. Both limits are needed; one alone changes nothing (docs/reference/benchmarks.md has the figures). What is kept
so is returned by `release_unused_memory`, which the sweep of connections calls.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
from functools import cache
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
TRIM_THRESHOLD_BYTES = 32 << 20
MMAP_THRESHOLD_BYTES = 16 << 20  # larger ones would leave holes that nothing fits


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
