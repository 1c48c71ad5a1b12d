"""What is remembered from one interval to the next, to recognise what was counted before: bounded, the latest stay.

This file runs as it is and compiled (memory.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.stdlib import free, realloc

MAX_RANGES = 16  # of one reader of one partition
NONE = -2  # no offset, nor the one before an offset
_NONE = NONE  # for C
MIN_ROOM = 8
_MIN_ROOM = MIN_ROOM  # for C


class Int64List:
    """A list of 64-bit integers, eight bytes each, without objects."""

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


class Recent:
    """A mapping that forgets: at least the ``max_entries`` keys used last are in it, at most twice as many.

    Who keeps a value must `get` it again once the generation is another one, so that it counts as used.
    """

    __slots__ = ("_max_entries", "_old", "_young", "generation")

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self.generation = 0
        self._young: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}

    def get(self, key: object) -> Any:
        value = self._young.get(key)
        if value is None and key in self._old:
            value = self._old[key]
            self.put(key, value)
        return value

    def put(self, key: object, value: object) -> Any:
        """Remember it; what was known under this key before."""
        young = self._young
        before = young.get(key)
        if before is None:
            before = self._old.get(key)
            if len(young) >= self._max_entries:
                self._old, self._young = young, {}
                young = self._young
                self.generation += 1
        young[key] = value
        return before

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())


class Acked:
    """Base offsets of the batches of one partition that were acknowledged last, each with its timestamp.

    They ascend as a rule: then a batch is two integers more.
    """

    __slots__ = ("_has_last", "_last", "_last_time", "_late", "_memory", "_offsets", "_times", "generation", "older")

    def __init__(self, memory: AckMemory, older: Acked | None) -> None:
        self._memory = memory
        self.generation = memory.generation
        self._offsets = Int64List()
        self._times = Int64List()
        self._late: dict[int, int] = {}  # timestamps of those that came after a greater one, or again
        self.older = older  # of the generation before
        self._last: int = -1 if self.older is None else self.older._last  # the greatest offset
        self._last_time = 0  # of the batch there,
        self._has_last = False  # if it was put here

    def put(self, offset: int, timestamp: int) -> bool:
        """Remember a batch; whether it was acknowledged before, with this timestamp."""
        is_known = False
        if offset > self._last:
            self._last, self._last_time, self._has_last = offset, timestamp, True
            self._offsets.append(offset)
            self._times.append(timestamp)
        elif self._has_last and offset == self._last and timestamp == self._last_time:
            is_known = True  # nothing more is to be remembered
        else:
            is_known = self._time_of(offset) == timestamp
            self._late[offset] = timestamp
            if offset == self._last:
                self._last_time, self._has_last = timestamp, True
        self._memory.count_one()
        return is_known

    def knows(self, offset: int, timestamp: int) -> bool:
        """Whether a batch was acknowledged before: what `put` says of it."""
        return self._time_of(offset) == timestamp

    def _time_of(self, offset: int) -> int | None:
        """The timestamp of the batch at this offset that was acknowledged last."""
        if offset in self._late:
            return self._late[offset]
        at = self._offsets.find(offset)
        if at >= 0:
            return self._times.get(at)
        return None if self.older is None else self.older._time_of(offset)


class AckMemory:
    """What was acknowledged in all partitions: at least the last ``max_batches`` batches, at most twice as many.

    A partition's `Acked` is right as long as its generation is this memory's.
    """

    __slots__ = ("_left", "_max_batches", "_old", "_young", "generation")

    def __init__(self, max_batches: int) -> None:
        self.generation = 0
        self._left = self._max_batches = max_batches
        self._young: dict[tuple[str, int], Acked] = {}
        self._old: dict[tuple[str, int], Acked] = {}

    def of(self, topic: str, partition: int) -> Acked:
        found = self._young.get((topic, partition))
        if found is None:
            found = self._young[topic, partition] = Acked(self, self._old.get((topic, partition)))
        return found

    def count_one(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = self._max_batches
            self._old, self._young = self._young, {}
            for one in self._old.values():
                one.older = None
            self.generation += 1


class Delivered:
    """What one reader was sent of one partition: ascending ranges of offsets, each with its greatest timestamp.

    A batch with a later timestamp than that of the range in which all its offsets are cannot be the same batch: the
    topic was created again, or its log was truncated. Then everything known of it is forgotten.
    """

    __slots__ = ("_first", "_last", "_latest", "_ranges")

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []  # first, last, greatest timestamp
        self._first = self._last = self._latest = _NONE  # of the last range: right there, in the list maybe not yet

    def add(self, first: int, last: int, timestamp: int) -> int:
        """Add a batch; the number of its offsets that this reader was sent before."""
        if first == self._last + 1 and self._last != _NONE:
            self._last = last
            self._latest = max(self._latest, timestamp)
            return 0
        if self._first <= first and last <= self._last and timestamp <= self._latest and self._last != _NONE:
            return last - first + 1
        if self._ranges:
            self._ranges[len(self._ranges) - 1][1:] = self._last, self._latest
        before = self._insert(first, last, timestamp)
        self._first, self._last, self._latest = self._ranges[len(self._ranges) - 1]
        return before

    def has(self, offset: int, first: int, last: int, timestamp: int) -> bool:
        """Whether this reader was sent one offset of a batch before: one of those that `add` says the number of."""
        if self._last == _NONE:
            return False
        ranges = [*self._ranges[: len(self._ranges) - 1], [self._first, self._last, self._latest]]
        for begin, end, latest in ranges:
            if begin <= offset <= end:
                return timestamp <= latest or first < begin or end < last
        return False

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
        ranges = sorted([*others, joined])
        self._ranges = ranges[max(0, len(ranges) - MAX_RANGES) :]
        return sum(offsets for offsets, _ in common if offsets > 0)
