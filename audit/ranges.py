"""Offsets as ascending, disjoint, inclusive ranges.

This file runs as it is and compiled (ranges.pxd holds the C types).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

NONE = -2  # no offset, nor the one before an offset
_NONE = NONE  # for C


class OffsetRanges:
    """Ranges of offsets. In most cases the next batch extends the last range."""

    __slots__ = ("_begin", "_end", "_firsts", "_lasts", "is_exact")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        self._begin = self._end = _NONE  # of the last range: its end is right there, in the array maybe not yet
        self.is_exact = True
        """False: where there was no room for another range, two were joined, with the offsets between them."""

    def extend(self, first: int, last: int) -> bool:
        """Add offsets that follow the last range, or that it has; False, and nothing is added, if not."""
        if first != self._end + 1 or self._end == _NONE:
            return self._begin <= first and last <= self._end and self._end != _NONE
        self._end = last
        return True

    def add(self, first: int, last: int, has_room: bool = True) -> int:
        """Add the offsets from ``first`` to ``last``; how many ranges more there are now.

        Without room for another range, the nearest one is extended to them.
        """
        if self.extend(first, last):
            return 0
        self._note_end()
        added = self._insert(first, last, has_room)
        self._begin, self._end = self._firsts[len(self._firsts) - 1], self._lasts[len(self._lasts) - 1]
        return added

    def _note_end(self) -> None:
        if self._lasts:
            self._lasts[len(self._lasts) - 1] = self._end

    def _insert(self, first: int, last: int, has_room: bool) -> int:
        firsts, lasts = self._firsts, self._lasts
        begin = bisect_left(lasts, first - 1)  # the first range that they touch
        end = bisect_right(firsts, last + 1)  # after the last one
        if begin < end:
            firsts[begin] = min(first, firsts[begin])
            lasts[begin] = max(last, lasts[end - 1])
            del firsts[begin + 1 : end]
            del lasts[begin + 1 : end]
            return begin + 1 - end
        if has_room or not firsts:
            firsts.insert(begin, first)
            lasts.insert(begin, last)
            return 1
        self.is_exact = False
        if begin == len(firsts) or (begin and first - lasts[begin - 1] <= firsts[begin] - last):
            lasts[begin - 1] = last
        else:
            firsts[begin] = first
        return 0

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def first(self) -> int | None:
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        return self._end if self._lasts else None

    def pairs(self) -> list[tuple[int, int]]:
        """First and last offset of each range."""
        self._note_end()
        return list(zip(self._firsts, self._lasts, strict=True))
