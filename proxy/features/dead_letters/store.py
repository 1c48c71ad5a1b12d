"""Letters that are not sent yet: in memory, and on disk while brokers do not take them, or too slowly.

What is on disk is older than what is in memory, and sent first. Stages add in any thread; all else is done by tasks of
the event loop, which read and write files in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeVar

from kafka_sidecar.dead_letters.buffer import Buffer
from kafka_sidecar.dead_letters.parcels import Parcel, merge
from kafka_sidecar.proxy.features.dead_letters.spool import Spool
from kafka_sidecar.proxy.runtime.tasks import spawn, stop

log = logging.getLogger(__name__)
T = TypeVar("T")

TAKEN_BYTES = 1 << 20  # that are sent at a time
MOVED_BYTES = 4 << 20  # that are written to disk at a time
FRAME_BYTES = 256 << 10  # of parcels that become one there
LOOK_S = 0.25  # how often it is looked whether letters have to be written to disk
SLOW_S = 1.0  # after which an attempt to send counts as one that fails
RETRY_S = 5.0  # after a write to disk that failed


class Store:
    """A `Source` of parcels."""

    def __init__(self, buffer: Buffer, spool: Spool | None, wake: Callable[[], None]) -> None:
        """
        Args:
            buffer: in memory.
            spool: on disk; None: what does not fit into memory is dropped.
            wake: called when there is more, in any thread.
        """
        self.buffer = buffer
        self.spool = spool
        self.dropped: Counter[str] = Counter()  # by reason
        self.queued = 0  # letters that came
        self._settled = 0  # of these: sent, refused or on disk
        self._in_memory = 0  # letters that are being sent, and are not on disk
        self.is_failing: Callable[[float], bool] = lambda after_s: False
        self.being_sent: Callable[[], Sequence[Parcel]] = lambda: ()
        self.spool_failure: str | None = None
        self._wake = wake
        self._lock = Lock()  # of the counts
        self._turn = asyncio.Lock()  # what is taken, and what is written to disk, is one after the other
        self._tasks: list[asyncio.Task[None]] = []
        self._is_on_disk = False  # some of what is being sent
        self._is_open = False

    async def start(self, adopted: Sequence[Path] = ()) -> None:
        """Find what an earlier process has left. Raises OSError if the folder cannot be used."""
        if self.spool is None:
            return
        lost = await asyncio.to_thread(self.spool.open, adopted)
        self._is_open = True
        if lost:
            self.dropped["killed"] += lost
            log.error("dead letters lost", extra={"letters": lost, "detail": "an earlier process was killed"})
        if self.spool.letters:
            log.info("dead letter spool read", extra={"letters": self.spool.letters, "bytes": self.spool.bytes})
        self._tasks = [spawn(self._keep_moving(self.spool), "spool dead letters")]

    def add(self, parcel: Parcel) -> bool:
        """Called in any thread. False: there is no room, and that is counted."""
        if not self.buffer.add(parcel):
            return False
        with self._lock:
            self.queued += len(parcel.letters)
            self._note()
        self._wake()
        return True

    @property
    def letters(self) -> int:
        """That are not sent: in memory and on disk."""
        return self.buffer.letters + self._in_memory + (self.spool.letters if self.spool is not None else 0)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest one was rejected, in seconds since 1970."""
        times = [parcel.at for parcel in self.being_sent()[:1]]
        others = (self.buffer.oldest_at, self.spool.oldest_at if self.spool is not None else None)
        times += [at for at in others if at is not None]
        return min(times, default=None)

    async def take(self) -> list[Parcel]:
        async with self._turn:
            spool = self.spool
            if spool is not None and self._is_open and spool.has_more and (parcels := await self._read(spool)):
                self._is_on_disk = True
                return parcels
            parcels = self.buffer.take(TAKEN_BYTES)
            self._in_memory = _letters(parcels)
            return parcels

    async def _read(self, spool: Spool) -> list[Parcel] | None:
        reading = asyncio.ensure_future(self._on_disk(spool.read, TAKEN_BYTES))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            await asyncio.wait([reading])
            spool.rewind()
            raise

    async def written(self) -> None:
        async with self._turn:
            if self._is_on_disk and self.spool is not None:
                await self._on_disk(self.spool.sent)
            self._is_on_disk = False
            self._settle(self._in_memory)
            self._in_memory = 0

    async def finish(self, unsent: Sequence[Parcel]) -> int:
        """The sidecar stops: write all to disk. How many letters have no room there, and are lost."""
        async with self._turn:  # nothing is being moved
            await stop(*self._tasks)
        if self._is_on_disk and self.spool is not None:  # only what is not sent is written again
            await self._on_disk(self.spool.sent)
        self._settle(self._in_memory - _letters(unsent))
        self._in_memory = 0
        self.buffer.put_back(unsent)
        if self.spool is not None and self._is_open:
            while self.buffer.letters and await self._move(self.spool):
                pass
        lost = self.buffer.letters
        self.dropped["not_sent"] += lost
        self._settle(lost)
        if self.spool is not None:
            self.spool.close()
        return lost

    async def _keep_moving(self, spool: Spool) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.is_failing(SLOW_S) or self.buffer.bytes > self.buffer.max_bytes // 2:
                await self._keep_what_is_sent(spool)
                while self.buffer.letters and await self._move(spool):
                    self._wake()
                if self.spool_failure is not None:
                    await asyncio.sleep(RETRY_S)

    async def _keep_what_is_sent(self, spool: Spool) -> None:
        """Write to disk what is being sent and was taken from memory: it is read only after a kill."""
        async with self._turn:
            parcels = merge(self.being_sent(), FRAME_BYTES)
            if self._is_on_disk or not parcels:
                return
            kept = parcels[: await self._on_disk(spool.write, parcels) or 0]
            if kept:
                await self._on_disk(spool.skip, kept)
                self._is_on_disk = True
                self._in_memory -= _letters(kept)
                self._settle(_letters(kept))

    async def _move(self, spool: Spool) -> bool:
        """Write the oldest parcels in memory to disk; False: there is no room, or the disk fails."""
        async with self._turn:
            parcels = merge(self.buffer.take(MOVED_BYTES), FRAME_BYTES)
            written = await self._on_disk(spool.write, parcels) or 0
            self.buffer.put_back(parcels[written:])
            self._settle(_letters(parcels[:written]))
            return written == len(parcels) and bool(parcels)

    async def _on_disk(self, work: Callable[..., T], *arguments: object) -> T | None:
        """What the work returns; None if the disk fails, which is logged once."""
        try:
            result = await asyncio.to_thread(work, *arguments)
        except OSError as error:
            failure = f"{self.spool.folder if self.spool else ''}: {error.strerror or error}"
            if failure != self.spool_failure:
                log.error("dead letter spool not written", extra={"detail": failure})
            self.spool_failure = failure
            return None
        self.spool_failure = None
        return result

    def _settle(self, letters: int) -> None:
        with self._lock:
            self._settled += letters
            self._note()

    def _note(self) -> None:
        """What a kill of this process would lose: the letters that are in memory alone."""
        if self.spool is not None:
            self.spool.note_counts(self.queued, self._settled)


def _letters(parcels: Sequence[Parcel]) -> int:
    return sum(len(parcel.letters) for parcel in parcels)
