"""What is remembered from one interval to the next, to recognise what was counted before: bounded, the latest stay."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_RANGES = 16  # of one reader of one partition


class Recent(Generic[K, V]):
    """A mapping that forgets: at least the ``max_entries`` keys used last are in it, at most twice as many."""

    __slots__ = ("_max_entries", "_old", "_young")

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        value = self._young.get(key)
        if value is None and key in self._old:
            value = self._old[key]
            self.put(key, value)
        return value

    def put(self, key: K, value: V) -> V | None:
        """Remember it; what was known under this key before."""
        young = self._young
        before = young.get(key)
        if before is None:
            before = self._old.get(key)
            if len(young) >= self._max_entries:
                self._old, self._young = young, {}
                young = self._young
        young[key] = value
        return before

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())


class Delivered:
    """What one reader was sent of one partition: ascending ranges of offsets, each with its greatest timestamp.

    A batch with a later timestamp than that of the range in which all its offsets are cannot be the same batch: the
    topic was created again, or its log was truncated. Then everything known of it is forgotten.
    """

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []  # first, last, greatest timestamp

    def add(self, first: int, last: int, timestamp: int) -> int:
        """Add a batch; the number of its offsets that this reader was sent before."""
        ranges = self._ranges
        if ranges and first == ranges[-1][1] + 1:
            ranges[-1][1] = last
            if timestamp > ranges[-1][2]:
                ranges[-1][2] = timestamp
            return 0
        return self._insert(first, last, timestamp)

    def _insert(self, first: int, last: int, timestamp: int) -> int:
        touching = [one for one in self._ranges if one[0] <= last + 1 and one[1] >= first - 1]
        common = [(min(last, one[1]) - max(first, one[0]) + 1, one[2]) for one in touching]
        if any(offsets == last - first + 1 and timestamp > latest for offsets, latest in common):
            self._ranges = [[first, last, timestamp]]
            return 0
        joined = [first, last, timestamp]
        for one in touching:
            joined = [min(joined[0], one[0]), max(joined[1], one[1]), max(joined[2], one[2])]
        others = [one for one in self._ranges if one not in touching]
        self._ranges = sorted([*others, joined])[-MAX_RANGES:]
        return sum(offsets for offsets, _ in common if offsets > 0)
