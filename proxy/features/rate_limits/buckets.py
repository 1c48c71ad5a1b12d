"""Token buckets with debt, in memory that all workers of a sidecar have in common.

A bucket is one number: the time at which it will be full. What is taken moves it into the future by the seconds in
which so much comes in; a bucket whose time has passed is full, and needs no memory at all. So the table has a fixed
size, whatever names clients choose: 16 bytes for each of `SLOTS` buckets. Where all slots of a bucket are taken, the
one that is full soonest is given up.

Workers change the table without a lock. Two that change the same slot at the same moment lose one of both charges,
which is one request's.
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


def key_of(parts: Iterable[object]) -> int:
    """The key of a bucket, the same in each process; never 0, which is that of a free slot."""
    text = "\0".join(map(repr, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") | 1


class Buckets:
    """All buckets of a sidecar. Times are seconds of one clock, which all workers have in common."""

    def __init__(self, shared: int | None = None) -> None:
        """``shared``: the descriptor of a file of `BYTES` bytes; None: this process is the only one."""
        memory = memoryview(bytearray(BYTES) if shared is None else mmap.mmap(shared, BYTES))
        self._keys = memory[: 8 * SLOTS].cast("Q")
        self._full_at = memory[8 * SLOTS :].cast("d")

    def charge(self, key: int, seconds: float, burst_s: float, now: float) -> float:
        """Take what comes in during ``seconds``, whether it is there or not.

        Returns:
            After how many seconds nothing is owed; 0 or less: nothing is.
        """
        slot = self._slot(key)
        full_at = min(max(self._full_at[slot], now) + seconds, now + burst_s + MAX_DEBT_S)
        self._full_at[slot] = full_at
        return full_at - now - burst_s

    def owed(self, key: int, burst_s: float, now: float) -> float:
        """The same before anything is taken."""
        slot = self._find(key)
        return (max(self._full_at[slot], now) if slot is not None else now) - now - burst_s

    def in_use(self, now: float) -> int:
        """Buckets that are not full."""
        return sum(full_at > now for full_at in self._full_at)

    def _find(self, key: int) -> int | None:
        first, keys = key >> 1, self._keys
        for at in range(first, first + PROBED):
            if keys[at % SLOTS] == key:
                return at % SLOTS
        return None

    def _slot(self, key: int) -> int:
        """The slot of a bucket, which is taken for it if it has none."""
        if (slot := self._find(key)) is not None:
            return slot
        first, full_at = key >> 1, self._full_at
        slot = min((at % SLOTS for at in range(first, first + PROBED)), key=full_at.__getitem__)
        self._keys[slot], full_at[slot] = key, 0.0
        return slot
