"""How numbers are spread: smallest, largest, percentiles, and the few that lie far away from all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import frexp

GAP = 2  # powers of two between the few and all others: at least twice as large
FINE = 8  # buckets of a power of two, for percentiles
_COUNT, _LEAST, _MOST = 0, 1, 2

Number = int | float
Ends = tuple[Number, Number]


@dataclass(slots=True)
class Spread:
    """Counts of numbers in buckets, one for each power of two and sign; or eight of them if it is fine."""

    is_fine: bool = False
    buckets: dict[int, list[Number]] = field(default_factory=dict)  # by key: count, smallest, largest

    def add(self, number: Number, times: int = 1) -> None:
        exponent = number.bit_length() if type(number) is int else frexp(number)[1]
        if self.is_fine:
            key = exponent * FINE + _eighth(number, exponent)
        else:
            key = (exponent + 2000 if number > 0 else -exponent - 2000) if number else 0
        bucket = self.buckets.get(key)
        if bucket is None:
            self.buckets[key] = [times, number, number]
            return
        bucket[_COUNT] += times
        if number < bucket[_LEAST]:
            bucket[_LEAST] = number
        elif number > bucket[_MOST]:
            bucket[_MOST] = number

    def merge(self, other: Spread) -> None:
        for key, (count, least, most) in other.buckets.items():
            mine = self.buckets.get(key)
            if mine is None:
                self.buckets[key] = [count, least, most]
            else:
                mine[:] = mine[_COUNT] + count, min(mine[_LEAST], least), max(mine[_MOST], most)

    @property
    def count(self) -> int:
        return sum(int(bucket[_COUNT]) for bucket in self.buckets.values())

    def ends(self, tolerance: float = 0.0) -> Ends:
        """The smallest and the largest, without the share ``tolerance`` of them if those are far away from the others.

        Raises:
            ValueError: there is none.
        """
        found = self._in_order()
        allowed = tolerance * self.count
        low, used = _cut([(at, int(bucket[_COUNT])) for at, bucket in found], allowed)
        high, _ = _cut([(-at, int(bucket[_COUNT])) for at, bucket in reversed(found)], allowed - used)
        kept = [bucket for _, bucket in found[low : len(found) - high]]
        return min(bucket[_LEAST] for bucket in kept), max(bucket[_MOST] for bucket in kept)

    def percentile(self, share: float) -> Number:
        """The largest of the bucket in which that share of the numbers ends; exact for the largest one."""
        wanted, seen = share * self.count, 0
        found = self._in_order()
        for _, bucket in found:
            seen += int(bucket[_COUNT])
            if seen >= wanted:
                return bucket[_MOST]
        return found[-1][1][_MOST]

    def _in_order(self) -> list[tuple[int, list[Number]]]:
        """The buckets from the smallest numbers on, each with its place on a line of powers of two with 0 at 0."""
        if self.is_fine:
            return [(key // FINE, bucket) for key, bucket in sorted(self.buckets.items())]
        lowest = min((abs(key) for key in self.buckets if key), default=1) - 1
        found = sorted((key - lowest * (key > 0) + lowest * (key < 0), bucket) for key, bucket in self.buckets.items())
        return sorted(found, key=lambda one: one[0])


def _eighth(number: Number, exponent: int) -> int:
    if not isinstance(number, int):
        raise TypeError("only integers are counted in fine buckets")
    return (number >> exponent - 4) - FINE if exponent > 4 else (number << 4 - exponent) - FINE if number else 0


def _cut(found: list[tuple[int, int]], allowed: float) -> tuple[int, int]:
    """How many buckets at the beginning are far away from the rest, and have no more numbers than that; with these."""
    cut = used = seen = 0
    for index, ((at, count), (following, _)) in enumerate(pairwise(found), 1):
        seen += count
        if seen > allowed:
            break
        if following - at >= GAP or at < 0 <= following:
            cut, used = index, seen
    return cut, used
