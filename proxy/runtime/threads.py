"""Work on a batch that would keep all other connections waiting is done in a thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

from kafka_sidecar.codec.records import Batch

# Compressed bytes from which on a batch is looked into in a thread: there the hop costs little beside the work. By
# codec; one that there is not is told at once.
OFFLOADED = {0: 1 << 20, 1: 64 << 10, 2: 512 << 10, 3: 512 << 10, 4: 64 << 10}
INFLATED_AT_ONCE = 1 << 20  # bytes; a small batch that holds more is begun again in a thread
# So many batches are inflated at once, however many connections send large ones: each may come to the limit.
THREADS = 2
WORKERS = ThreadPoolExecutor(THREADS, "batches")


def takes_long(batch: Batch, records_at_once: int) -> bool:
    """Whether to look into the batch would hold up all others."""
    header = batch.header
    return header.count > records_at_once or len(batch.data) >= OFFLOADED.get(header.codec, sys.maxsize)


async def settled(limit_s: float) -> None:
    """Wait until all that was given to the threads so far is done, but not for ever."""
    together, loop = Barrier(THREADS), asyncio.get_running_loop()  # each thread takes one of as many waits
    waits = [loop.run_in_executor(WORKERS, together.wait, limit_s) for _ in range(THREADS)]
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*waits, return_exceptions=True)


async def in_thread(work: Callable[[], None]) -> None:
    """Do the work in one of few threads."""
    await asyncio.get_running_loop().run_in_executor(WORKERS, work)
