"""Work on a batch that would keep all other connections waiting is done in a thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from kafka_sidecar.codec.records import Batch

# Compressed bytes from which on a batch is looked into in a thread: there the hop costs little beside the work. By
# codec; one that there is not is told at once.
OFFLOADED = {0: 1 << 20, 1: 64 << 10, 2: 512 << 10, 3: 512 << 10, 4: 64 << 10}
INFLATED_AT_ONCE = 1 << 20  # bytes; a small batch that holds more is begun again in a thread
# So many batches are inflated at once, however many connections send large ones: each may come to the limit.
THREADS = 2
_WORKERS = ThreadPoolExecutor(THREADS, "batches")
_unfinished: set[Future[object]] = set()


def takes_long(batch: Batch, records_at_once: int) -> bool:
    """Whether to look into the batch would hold up all others."""
    header = batch.header
    return header.count > records_at_once or len(batch.data) >= OFFLOADED.get(header.codec, sys.maxsize)


def submit(work: Callable[[], object]) -> Future[object]:
    """Start the work in one of the threads, now or as soon as one is idle."""
    future = _WORKERS.submit(work)
    _unfinished.add(future)
    future.add_done_callback(_unfinished.discard)
    return future


async def in_thread(work: Callable[[], object]) -> None:
    """Do the work in one of the threads, and wait for it."""
    await asyncio.wrap_future(submit(work))


async def drain(limit_s: float) -> None:
    """Wait until all work submitted so far is done, at most ``limit_s``."""
    if unfinished := tuple(_unfinished):
        await asyncio.to_thread(wait, unfinished, limit_s)
