"""Work on a batch that would keep all other connections waiting is done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

# So many batches are inflated at once, however many connections send large ones: each may come to the limit.
THREADS = 2
_WORKERS = ThreadPoolExecutor(THREADS, "batches")
_unfinished: set[Future[object]] = set()


def submit(work: Callable[[], object]) -> Future[object]:
    """Start the work in one of the threads, now or as soon as one is idle."""
    future = _WORKERS.submit(work)
    _unfinished.add(future)
    future.add_done_callback(_unfinished.discard)
    return future


async def drain(limit_s: float) -> None:
    """Wait until all work submitted so far is done, at most ``limit_s``."""
    if unfinished := tuple(_unfinished):
        await asyncio.to_thread(wait, unfinished, limit_s)
