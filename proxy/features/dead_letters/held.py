"""Lanes, each what is sent to one partition of a dead letter topic, and letters that wait for those that take nothing.

A lane whose partition takes nothing is held. Its letters wait in their order until what it has begun to send is
written: by the same producer, with the same sequence numbers, so that none is there twice. Letters of all other lanes
are sent meanwhile. Those that wait are in a folder of their own, or in memory where there is none.

All of them are in one row, in the order in which they came. When a lane is over, the row is gone through once: what can
be sent is, the rest goes to its end. Nothing else is sent meanwhile, so letters of a partition stay in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kafka_sidecar.dead_letters.parcels import Letter, Parcel, merge
from kafka_sidecar.proxy.features.dead_letters.spool import Position, Spool

READ_BYTES = 1 << 20  # that are sent at a time
FRAME_BYTES = 256 << 10  # of parcels that become one
BATCH_BYTES = 1 << 20  # of letters, before compression, unless a single one is larger

Key = tuple[str, int]  # dead letter topic, its partition


def letters_of(parcels: Iterable[Parcel]) -> int:
    return sum(len(parcel.letters) for parcel in parcels)


class Lane:
    """What is sent to one partition."""

    def __init__(
        self, topic: str, partition: int, partitions: int = 1, max_batch: int = 1 << 20, is_compacted: bool = False
    ) -> None:
        """The topic has so many partitions, takes batches of so many bytes, and may be compacted."""
        self.topic = topic
        self.partition = partition
        self.partitions = partitions
        self.max_batch = max_batch
        self.is_compacted = is_compacted
        self.parcels: deque[Parcel] = deque()
        self.task: asyncio.Task[None] | None = None
        self.error: Exception | None = None  # that has ended it
        self.trouble: str | None = None  # why its partition takes nothing for the moment
        self.removed = 0  # letters

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is being sent."""
        return self.task is None or self.task.done()

    def next_letters(self) -> list[Letter]:
        """The next ones that fit into a batch: at least one if there is any."""
        letters: list[Letter] = []
        size = 0
        for parcel in self.parcels:
            for letter in parcel.letters:
                size += letter.size
                if letters and size > BATCH_BYTES:
                    return letters
                letters.append(letter)
        return letters

    def remove(self, letters: int) -> None:
        """The first ones are written, or will never be."""
        self.removed += letters
        while letters:
            parcel = self.parcels.popleft()
            if len(parcel.letters) > letters:
                self.parcels.appendleft(replace(parcel, letters=parcel.letters[letters:]))
                return
            letters -= len(parcel.letters)


class HeldLanes:
    """The lanes whose partitions take nothing, and which of the letters that wait for them may be sent again.

    Copies of what a lane was sending are the first of its letters that wait. Once it is over, these are passed over as
    far as the lane itself has sent them: from `begin` to `end` all that waits is looked at once.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """``wake``: called when a lane is over."""
        self._wake = wake
        self._lanes: dict[Key, Lane] = {}
        self._partitions: dict[str, int] = {}  # of their topics: which lane a letter has must not change meanwhile
        self._sent: dict[Key, int] = {}  # letters that lanes which are over have sent themselves

    def add(self, lane: Lane) -> None:
        """Hold a lane. All that it still has was copied."""
        lane.removed = 0
        self._partitions.setdefault(lane.topic, lane.partitions)
        self._lanes[lane.topic, lane.partition] = lane
        if lane.task is not None:
            lane.task.add_done_callback(lambda _: self._wake())

    @property
    def count(self) -> int:
        return len(self._lanes)

    @property
    def lanes(self) -> list[Lane]:
        return list(self._lanes.values())

    @property
    def have_ended(self) -> bool:
        """Whether letters that wait may be sent again: some lanes are over."""
        return any(lane.is_over for lane in self._lanes.values())

    @property
    def have_sent(self) -> bool:
        """Whether some of the letters that wait were sent by their lanes."""
        return any(self._sent.values()) or any(lane.removed for lane in self._lanes.values())

    def partitions_of(self, topic: str) -> int | None:
        """As they were when a lane of the topic was held; None: none is."""
        return self._partitions.get(topic)

    def holds(self, parcel: Parcel) -> bool:
        """Whether its letters have to wait."""
        return self._key(parcel) in self._lanes

    def begin(self) -> list[Lane]:
        """Forget the lanes that are over, and return them."""
        over = {key: lane for key, lane in self._lanes.items() if lane.is_over}
        for key, lane in over.items():
            del self._lanes[key]
            self._sent[key] = lane.removed
        return list(over.values())

    def sort(self, parcels: Iterable[Parcel]) -> tuple[list[Parcel], list[Parcel]]:
        """Of parcels that wait, in their order: those to be sent now, and those that wait on."""
        ready: list[Parcel] = []
        again: list[Parcel] = []
        for parcel in parcels:
            key = self._key(parcel)
            sent = min(self._sent.get(key, 0), len(parcel.letters))
            if sent:
                self._sent[key] -= sent
                parcel = replace(parcel, letters=parcel.letters[sent:])
            if parcel.letters:
                (again if key in self._lanes else ready).append(parcel)
        return ready, again

    def end(self) -> None:
        """All that waited when it began was looked at."""
        self._sent.clear()
        held = {topic for topic, _ in self._lanes}
        self._partitions = {topic: count for topic, count in self._partitions.items() if topic in held}

    def _key(self, parcel: Parcel) -> Key:
        return parcel.topic, parcel.partition % self._partitions.get(parcel.topic, 1)


class Row(Protocol):
    """Parcels in their order."""

    @property
    def bytes(self) -> int: ...

    @property
    def letters(self) -> int: ...

    @property
    def oldest_at(self) -> float | None: ...

    @property
    def has_more(self) -> bool: ...

    @property
    def end(self) -> Position: ...

    def write(self, parcels: Sequence[Parcel], is_forced: bool = False) -> int: ...

    def read(self, max_bytes: int, until: Position | None = None) -> list[Parcel]: ...

    def rewind(self) -> None: ...

    def sent(self) -> None: ...


class MemoryRow:
    """A `Row` in memory."""

    def __init__(self) -> None:
        self.bytes = self.letters = 0
        self._parcels: deque[Parcel] = deque()
        self._first = self._read = 0  # numbers of parcels

    @property
    def oldest_at(self) -> float | None:
        return self._parcels[0].at if self._parcels else None

    @property
    def end(self) -> Position:
        return 0, self._first + len(self._parcels)

    @property
    def has_more(self) -> bool:
        return (0, self._read) < self.end

    def write(self, parcels: Sequence[Parcel], is_forced: bool = False) -> int:
        self._parcels += parcels
        self.bytes += sum(parcel.size for parcel in parcels)
        self.letters += letters_of(parcels)
        return len(parcels)

    def read(self, max_bytes: int, until: Position | None = None) -> list[Parcel]:
        found: list[Parcel] = []
        size, end = 0, self.end if until is None else until
        while size < max_bytes and (0, self._read) < end:
            found.append(self._parcels[self._read - self._first])
            size += found[-1].size
            self._read += 1
        return found

    def rewind(self) -> None:
        self._read = self._first

    def sent(self) -> None:
        while self._first < self._read:
            parcel = self._parcels.popleft()
            self._first += 1
            self.bytes -= parcel.size
            self.letters -= len(parcel.letters)


class Held:
    """The letters that wait for held lanes."""

    def __init__(
        self, lanes: HeldLanes, spool: Spool | None,
        work: Callable[[Callable[[], object]], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """
        Args:
            lanes: those that are held.
            spool: their folder; None: they wait in memory.
            work: reads and writes files; False: the disk fails.
        """
        self.lanes = lanes
        self.spool = spool
        self._row: Row = MemoryRow() if spool is None else spool
        self._work = work
        self._until: Position | None = None  # up to where the row is gone through now
        self._again: list[Parcel] = []  # read, and to be written to the end of the row
        self._twice = 0  # letters that are at the end of the row, and still where they were taken from
        self._is_found = False  # an earlier process has left some
        self.on_over: Callable[[Lane], None] = lambda lane: None

    def open(self, adopted: Sequence[Path]) -> None:
        """Find what an earlier process has left. Raises OSError."""
        if self.spool is not None:
            self.spool.open(adopted)
            self._is_found = self.spool.has_more

    def close(self) -> None:
        if self.spool is not None:
            self.spool.close()

    @property
    def bytes(self) -> int:
        return self._row.bytes

    @property
    def letters(self) -> int:
        return self._row.letters - self._twice

    @property
    def oldest_at(self) -> float | None:
        return self._row.oldest_at

    @property
    def is_due(self) -> bool:
        """Whether some that wait have to be looked at before anything else is sent."""
        return self._until is not None or self._is_found or bool(self._again) or self.lanes.have_ended

    @property
    def is_stuck(self) -> bool:
        """Whether nothing was taken because the disk fails."""
        return self._until is not None or bool(self._again)

    async def put(self, parcels: Sequence[Parcel]) -> bool:
        """Let them wait. False: the disk fails."""
        written = merge(parcels, FRAME_BYTES)
        return await self._work(lambda: self._row.write(written, True))

    async def put_again(self, parcels: Sequence[Parcel]) -> bool:
        """The same of some that were taken, before `sent`."""
        if not await self.put(parcels):
            return False
        self._twice += letters_of(parcels)
        return True

    async def take(self) -> list[Parcel]:
        """The next ones that can be sent; none: there are none, or the disk fails and `is_due` stays."""
        if self._again and not await self._put_again():
            return []
        if self._until is None:
            for lane in self.lanes.begin():
                self.on_over(lane)
            self._is_found, self._until = False, self._row.end
        while True:
            parcels: list[Parcel] = []
            until = self._until
            if not await self._work(lambda: parcels.extend(self._row.read(READ_BYTES, until))):  # noqa: B023 - now
                self._row.rewind()
                return []
            if not parcels:
                self._until = None
                self.lanes.end()
                return []
            ready, again = self.lanes.sort(parcels)
            self._again = again
            await self._put_again()
            if ready:
                return ready
            await self.sent()

    async def sent(self) -> None:
        """What was taken last is sent."""
        if not self._again and await self._work(self._row.sent):
            self._twice = 0

    async def finish(self) -> None:
        """The lanes have ended: keep what they have not sent."""
        if self._again:
            await self._put_again()
        if not self.lanes.have_sent:
            return
        if self._until is not None:
            await self._go_round(self._until)
            self.lanes.end()
        self.lanes.begin()
        await self._go_round(self._row.end)
        self.lanes.end()

    async def _go_round(self, until: Position) -> None:
        parcels: list[Parcel] = []
        while await self._work(lambda: parcels.extend(self._row.read(READ_BYTES, until))) and parcels:
            ready, again = self.lanes.sort(parcels)
            parcels.clear()
            if not await self.put([*ready, *again]):
                return
            await self.sent()
        await self.sent()

    async def _put_again(self) -> bool:
        if self._again and await self.put_again(self._again):
            self._again = []
        return not self._again
