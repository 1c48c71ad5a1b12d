"""What is remembered by names that clients choose: the oldest goes when there are too many, or take too many bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

KEY_BYTES = 512  # of an entry's key, on average: the names of honest clients are shorter


class Bounded(dict[K, V]):
    """A dict of so many entries at most, in the order in which they came.

    A known key keeps its place, unless it is removed with `pop` before it is set again.

    >>> known = Bounded(2)
    >>> for name in "abca":
    ...     known[name] = len(name)
    >>> list(known)
    ['c', 'a']
    """

    __slots__ = ("_most", "_room")

    def __init__(self, most: int, key_bytes: int = KEY_BYTES) -> None:
        super().__init__()
        self._most = most
        self._room = most * key_bytes  # bytes that further keys may take

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._room -= _size(key)
            while self and (len(self) >= self._most or self._room < 0):
                del self[next(iter(self))]
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self._room += _size(key)

    def pop(self, key: K, default: D = None) -> V | D:  # type: ignore[assignment] # it is never missed
        """The value, which is forgotten, or the default."""
        if key not in self:
            return default
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        for key in list(self):
            del self[key]


def _size(key: object) -> int:
    """Bytes of the texts in a key, about."""
    if isinstance(key, str | bytes):
        return len(key)
    return sum(map(_size, key)) if isinstance(key, Iterable) else 0
