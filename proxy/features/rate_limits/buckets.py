"""Token buckets with debt, in memory that all workers of a sidecar have in common.

A bucket is one number: the time at which it will be full. What is taken moves it into the future by the seconds in
which so much comes in; a bucket whose time has passed is full, and needs no memory at all. So the table has a fixed
size, whatever names clients choose: 16 bytes for each of `SLOTS` buckets. Where all slots of a bucket are taken, the
one that is full soonest is given up.

Workers change the table without a lock. Two that change the same slot at the same moment lose one of both charges,
which is one request's.

This file runs as it is and compiled (buckets.pxd holds the C types).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from hashlib import blake2b

from kafka_sidecar.proxy.config.workers import SHARED_BYTES

BYTES = SHARED_BYTES
SLOTS = BYTES // 16
PROBED = 8  # slots in which a bucket may be
MAX_DEBT_S = 300.0  # what is owed beyond that is forgotten: the honest clients of a flooded bucket come back
_MAX_DEBT_S = MAX_DEBT_S  # for C


def key_of(parts: Iterable[object]) -> int:
    """The key of a bucket, the same in each process; never 0, which is that of a free slot."""
    text = "\0".join(map(repr, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") | 1


class Buckets:
    """All buckets of a sidecar. Times are seconds of one clock, which all workers have in common."""

    __slots__ = ("full_at", "keys")

    def __init__(self, shared: int | None = None) -> None:
        """``shared``: the descriptor of a file of `BYTES` bytes; None: this process is the only one."""
        memory = memoryview(bytearray(BYTES) if shared is None else mmap.mmap(shared, BYTES))
        self.keys = memory[: 8 * SLOTS].cast("Q")
        self.full_at = memory[8 * SLOTS :].cast("d")

    def in_use(self, now: float) -> int:
        """Buckets that are not full."""
        return sum(full_at > now for full_at in self.full_at)

    def find(self, key: int) -> int | None:
        """The slot of a bucket; None: it is full."""
        first, keys = key >> 1, self.keys
        for at in range(first, first + PROBED):
            if keys[at % SLOTS] == key:
                return at % SLOTS
        return None

    def slot(self, key: int) -> int:
        """The same; one is taken for it if it has none."""
        if (slot := self.find(key)) is not None:
            return slot
        first, full_at = key >> 1, self.full_at
        slot = first % SLOTS
        for at in range(first + 1, first + PROBED):
            if full_at[at % SLOTS] < full_at[slot]:
                slot = at % SLOTS
        self.keys[slot], full_at[slot] = key, 0.0
        return slot


class Bucket:
    """One bucket, as those see it who take from it."""

    __slots__ = ("_all", "_burst_s", "_key", "_seconds", "_slot")

    def __init__(self, buckets: Buckets, key: int, rate: float, burst_s: float) -> None:
        """
        Args:
            rate: what comes in in a second.
            burst_s: the seconds after which it is full.
        """
        self._all = buckets
        self._key = key
        self._seconds = 1 / rate
        self._burst_s = burst_s
        self._slot = -1  # where it was last

    def take(self, amount: int, now: float) -> float:
        """Take an amount, whether it is there or not.

        Returns:
            After how many seconds nothing is owed; 0 or less: nothing is.
        """
        slot, everything = self._slot, self._all
        if slot < 0 or everything.keys[slot] != self._key:
            slot = self._slot = everything.slot(self._key)
        full_at = everything.full_at[slot]
        if full_at < now:
            full_at = now
        full_at += amount * self._seconds
        owed = full_at - now - self._burst_s
        if owed > _MAX_DEBT_S:
            full_at, owed = now + self._burst_s + _MAX_DEBT_S, _MAX_DEBT_S
        everything.full_at[slot] = full_at
        return owed

    def seconds_of(self, amount: float) -> float:
        """In which so much comes in."""
        return amount * self._seconds

    def owed(self, now: float, amount: float = 0) -> float:
        """The same before it is taken."""
        slot = self._all.find(self._key)
        full_at = max(self._all.full_at[slot], now) if slot is not None else now
        return full_at + amount * self._seconds - now - self._burst_s
