"""Lists of 64-bit integers, eight bytes each: what is noted of every batch takes no object.

This file runs as it is and compiled (int64_list.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Iterator

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.stdlib import free, realloc

MIN_ROOM = 8
_MIN_ROOM = MIN_ROOM  # for C


class Int64List:
    """A list that grows."""

    __slots__ = ("_room", "_values", "size")

    def __init__(self) -> None:
        self.size = self._room = 0
        if not cython.compiled:
            self._values: list[int] = []

    def __dealloc__(self) -> None:
        if cython.compiled:
            free(self._values)

    def append(self, value: int) -> None:
        self._reach(self.size + 1)
        self._values[self.size - 1] = value

    def add(self, index: int, value: int) -> None:
        """Add to the integer at ``index``. Those that do not exist yet are 0."""
        if index < 0:
            raise IndexError(index)
        if index >= self.size:
            self._reach(index + 1)
        self._values[index] += value

    def get(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self._values[index]

    def find(self, value: int) -> int:
        """Where ``value`` is in a list that ascends; -1: it is not there."""
        begin, end = 0, self.size
        while begin < end:
            middle = (begin + end) // 2
            if self._values[middle] < value:
                begin = middle + 1
            else:
                end = middle
        return begin if begin < self.size and self._values[begin] == value else -1

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        return iter([self._values[index] for index in range(self.size)])

    def _reach(self, size: int) -> None:
        """Have at least ``size`` integers."""
        if size > self._room:
            self._make_room(max(size, 2 * self._room, _MIN_ROOM))
        self.size = size

    def _make_room(self, room: int) -> None:
        if cython.compiled:
            values = cython.cast(cython.pointer(cython.longlong), realloc(self._values, room * 8))
            if values == cython.NULL:
                raise MemoryError(f"{room} integers")
            for index in range(self._room, room):
                values[index] = 0
            self._values = values
        else:
            self._values += [0] * (room - self._room)
        self._room = room
