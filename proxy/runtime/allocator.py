"""Keep glibc's allocator from giving pages back and asking for them again with every large read.

A read of some hundred kilobytes is above glibc's threshold for a mapping of its own: mapped, faulted in by pages and
unmapped each time, which costs more than relaying it. Both limits are needed, either alone changes nothing
(docs/reference/benchmarks.md has the figures).
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
TRIM_THRESHOLD = 8 << 20
MMAP_THRESHOLD = 4 << 20


def settle() -> None:
    """Set the allocator's limits, and give back what starting up has left. Does nothing where there is no glibc."""
    gc.collect()
    gc.freeze()
    give_back()
    if (libc := _glibc()) is not None:
        libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        libc.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD)


def give_back() -> None:
    """Give the system all pages that nobody uses: free pieces between those in use would be kept for good."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
