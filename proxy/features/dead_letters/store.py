"""Letters that are not sent yet: in memory, and on disk while brokers do not take them, or too slowly.

What is on disk is older than what is in memory, and sent first; first of all what waits for a partition that takes
letters again. Stages add in any thread; all else is done by tasks of the event loop, which read and write files in a
thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import TypeVar

from kafka_sidecar.dead_letters.buffer import Buffer
from kafka_sidecar.dead_letters.parcels import Parcel, merge
from kafka_sidecar.proxy.features.dead_letters.held import Held, HeldLanes, letters_of
from kafka_sidecar.proxy.features.dead_letters.spool import Spool
from kafka_sidecar.proxy.runtime.tasks import spawn, stop

log = logging.getLogger(__name__)
T = TypeVar("T")

TAKEN_BYTES = 1 << 20  # that are sent at a time
MOVED_BYTES = 4 << 20  # that are written to disk at a time
FRAME_BYTES = 256 << 10  # of parcels that become one there
HELD = "held"  # the folder of letters that wait for a partition
LOOK_S = 0.25  # how often it is looked whether letters have to be written to disk
SLOW_S = 1.0  # after which an attempt to send counts as one that fails
RETRY_S = 5.0  # after a write to disk that failed


class _From(Enum):
    """Where what is being sent was taken from, and is still."""

    MEMORY, DISK, HELD = range(3)


class Store:
    """A `Source` of parcels."""

    def __init__(
        self, buffer: Buffer, spool: Spool | None, wake: Callable[[], None], lanes: HeldLanes | None = None
    ) -> None:
        """
        Args:
            buffer: in memory.
            spool: on disk; None: what does not fit into memory is dropped.
            wake: called when there is more, in any thread.
            lanes: partitions whose letters wait.
        """
        self.buffer = buffer
        self.spool = spool
        folder = None if spool is None else Spool(spool.folder / HELD, spool.max_bytes)
        self.held = Held(lanes or HeldLanes(), folder, self._works)
        self.dropped: Counter[str] = Counter()  # by reason
        self.queued = 0  # letters that came into memory
        self._settled = 0  # of these: sent, refused or on disk
        self._in_memory = 0  # letters that are being sent, and are not on disk
        self._twice = 0  # letters that wait for a partition, and are still where they were taken from
        # While some are written to disk: how many were taken from memory for it, and how many were on disk before.
        self._moving: tuple[int, int] | None = None
        self.is_failing: Callable[[float], bool] = lambda after_s: False
        self.being_sent: Callable[[], Sequence[Parcel]] = lambda: ()
        self.spool_failure: str | None = None
        self._wake = wake
        self._lock = Lock()  # of the counts
        self._turn = asyncio.Lock()  # what is taken, and what is written to disk, is one after the other
        self._tasks: list[asyncio.Task[None]] = []
        self._from = _From.MEMORY
        self._is_blocked = False  # there is no room for letters that have to wait
        self._is_open = False

    async def start(self, adopted: Sequence[Path] = ()) -> None:
        """Find what an earlier process has left. Raises OSError if the folder cannot be used."""
        if self.spool is None:
            return
        lost = await asyncio.to_thread(self.spool.open, adopted)
        await asyncio.to_thread(self.held.open, [folder / HELD for folder in adopted])
        self._is_open = True
        self._share_room()
        if lost:
            self.dropped["killed"] += lost
            log.error("dead letters lost", extra={"letters": lost, "detail": "an earlier process was killed"})
        if letters := self.spool.letters + self.held.letters:
            size = self.spool.bytes + self.held.bytes
            log.info("dead letter spool read", extra={"letters": letters, "bytes": size})
        self._tasks = [spawn(self._keep_moving(self.spool), "spool dead letters")]

    def use_no_disk(self) -> None:
        """The folder cannot be used: what waits does so in memory."""
        lanes, on_over = self.held.lanes, self.held.on_over
        self.spool = None
        self.held = Held(lanes, None, self._works)
        self.held.on_over = on_over

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
        """That are not sent: in memory and on disk, or on their way there. Called in the event loop."""
        moving, on_disk = self._moving or (0, self.spool.letters if self.spool is not None else 0)
        return self.buffer.letters + moving + self._in_memory + on_disk + self.held.letters - self._twice

    @property
    def bytes_on_disk(self) -> int | None:
        """None: there is no folder."""
        return None if self.spool is None else self.spool.bytes + self.held.bytes

    @property
    def oldest_at(self) -> float | None:
        """When the oldest one was rejected, in seconds since 1970."""
        times = [parcel.at for parcel in self.being_sent()[:1]]
        on_disk = self.spool.oldest_at if self.spool is not None else None
        others = (self.buffer.oldest_at, on_disk, self.held.oldest_at)
        times += [at for at in others if at is not None]
        return min(times, default=None)

    async def hold(self, parcels: Sequence[Parcel]) -> bool:
        """Let parcels that are being sent wait for their partition. False: there is no room, or the disk fails."""
        async with self._turn:
            return await self._hold(parcels)

    async def _hold(self, parcels: Sequence[Parcel]) -> bool:
        put = self.held.put_again if self._from is _From.HELD else self.held.put
        is_kept = sum(parcel.size for parcel in parcels) <= self._room and await put(parcels)
        if is_kept and self._from is not _From.HELD:
            self._twice += letters_of(parcels)
        self._share_room()
        return is_kept

    @property
    def _room(self) -> int:
        """Bytes for letters that wait."""
        if self.spool is not None:
            return self.spool.room if self._is_open else 0
        return self.buffer.max_bytes // 2 - self.held.bytes  # the others need some, too

    def _share_room(self) -> None:
        if self.spool is not None:
            self.spool.reserved = self.held.bytes
        else:
            self.buffer.reserved = self.held.bytes

    async def take(self) -> list[Parcel]:
        taking = asyncio.ensure_future(self._take())
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])
            await self._give_back(taking.result())
            raise

    async def _take(self) -> list[Parcel]:
        async with self._turn:
            while self.held.is_due:  # also if another lane is over meanwhile
                parcels = await self.held.take()
                self._share_room()
                if parcels:
                    self._from = _From.HELD
                if parcels or self.held.is_stuck:
                    return parcels
            while parcels := await self._next():
                if (found := await self._without_held(parcels)) is None:
                    return []
                if found:
                    return found
            return []

    async def _next(self) -> list[Parcel]:
        spool = self.spool
        if spool is not None and self._is_open and spool.has_more:
            parcels = await self._on_disk(spool.read, TAKEN_BYTES)
            if parcels:
                self._from = _From.DISK
                return parcels
            spool.rewind()  # the disk fails, or nothing of it could be read
        self._from = _From.MEMORY
        parcels = self.buffer.take(TAKEN_BYTES)
        self._in_memory = letters_of(parcels)
        return parcels

    async def _without_held(self, parcels: list[Parcel]) -> list[Parcel] | None:
        """Those that can be sent; the others wait. None: they cannot wait, so all stay where they were."""
        waiting = [parcel for parcel in parcels if self.held.lanes.holds(parcel)] if self.held.lanes.count else []
        self._is_blocked = bool(waiting) and not await self._hold(waiting)
        if self._is_blocked:
            if self._from is _From.DISK and self.spool is not None:
                self.spool.rewind()
            else:
                self.buffer.put_back(parcels)
                self._in_memory = 0
            return None
        found = [parcel for parcel in parcels if not self.held.lanes.holds(parcel)] if waiting else parcels
        if self._from is _From.MEMORY:
            self._settle(letters_of(waiting))
            self._in_memory, self._twice = letters_of(found), 0
        elif not found:
            await self._taken_is_sent()
        return found

    async def _give_back(self, parcels: Sequence[Parcel]) -> None:
        """What was taken will not be sent: it is the oldest in memory."""
        async with self._turn:
            await self._taken_is_sent()
            self._bring_back(parcels)

    def _bring_back(self, parcels: Sequence[Parcel]) -> None:
        """They are in memory again, and there alone."""
        with self._lock:
            self.queued += letters_of(parcels)  # those of an earlier process never came in this one
            self._note()
        self.buffer.put_back(parcels)

    async def written(self) -> None:
        async with self._turn:
            await self._taken_is_sent()

    async def _taken_is_sent(self) -> None:
        """It need not be kept where it was taken from."""
        if self._from is _From.DISK and self.spool is not None:
            await self._on_disk(self.spool.sent)
        elif self._from is _From.HELD:
            await self.held.sent()
            self._share_room()
        self._from = _From.MEMORY
        self._settle(self._in_memory)
        self._in_memory = self._twice = 0

    async def finish(self, unsent: Sequence[Parcel]) -> int:
        """The sidecar stops: write all to disk. How many letters have no room there, and are lost."""
        async with self._turn:  # nothing is being moved
            await stop(*self._tasks)
        await self._taken_is_sent()  # only what is not sent is written again
        self._bring_back(unsent)
        await self.held.finish()
        if self.spool is not None and self._is_open:
            while self.buffer.letters and await self._move(self.spool):
                pass
        lost = self.buffer.letters + (self.held.letters if self.spool is None else 0)
        self.dropped["not_sent"] += lost
        self._settle(lost)
        if self.spool is not None:
            self.spool.close()
        self.held.close()
        return lost

    async def _keep_moving(self, spool: Spool) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.held.is_due:  # the disk has failed
                self._wake()
            is_slow = self._is_blocked or self.is_failing(SLOW_S)
            if is_slow or self.buffer.bytes > self.buffer.max_bytes // 2:
                await self._keep_what_is_sent(spool)
                while self.buffer.letters and await self._move(spool):
                    self._wake()
                if self.spool_failure is not None:
                    await asyncio.sleep(RETRY_S)

    async def _keep_what_is_sent(self, spool: Spool) -> None:
        """Write to disk what is being sent and was taken from memory: it is read only after a kill."""
        async with self._turn:
            parcels = merge(self.being_sent(), FRAME_BYTES)
            if self._from is not _From.MEMORY or not parcels:
                return
            self._moving = 0, spool.letters
            try:
                kept = parcels[: await self._on_disk(spool.write, parcels) or 0]
                if kept:
                    await self._on_disk(spool.skip, kept)
                    self._from = _From.DISK
                    self._in_memory -= letters_of(kept)
                    self._settle(letters_of(kept))
            finally:
                self._moving = None

    async def _move(self, spool: Spool) -> bool:
        """Write the oldest parcels in memory to disk; False: there is no room, or the disk fails."""
        async with self._turn:
            parcels, before = merge(self.buffer.take(MOVED_BYTES), FRAME_BYTES), spool.letters
            self._moving = letters_of(parcels), before
            try:
                written = await self._on_disk(spool.write, parcels) or 0
                self.buffer.put_back(parcels[written:])
            finally:
                self._moving = None
            self._settle(letters_of(parcels[:written]))
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

    async def _works(self, work: Callable[[], object]) -> bool:
        """Whether the disk does not fail; without a folder the work is short."""
        if self.spool is None:
            work()
            return True
        return await self._on_disk(_done, work) is not None

    def _settle(self, letters: int) -> None:
        with self._lock:
            self._settled += letters
            self._note()

    def _note(self) -> None:
        """What a kill of this process would lose: the letters that are in memory alone."""
        if self.spool is not None:
            self.spool.note_counts(self.queued, self._settled)


def _done(work: Callable[[], object]) -> bool:
    work()
    return True
