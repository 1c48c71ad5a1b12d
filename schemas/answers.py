"""What is kept of a registry's answers, and for how long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Any

MAX_ENTRIES = 10_000  # of each kind of answers but schemas: clients choose ids, and owners of topics their names


@dataclass(slots=True)
class Kept:
    answer: Any
    until: float  # after that it is asked for again
    is_of_use: bool  # also after that, while the registry does not respond
    bytes: int = 0
    used: int = 0  # the number of its last use


class Schemas:
    """Schemas by their ids. They never change; the limit is in bytes, and the least recently used make room.

    `get` needs no lock.
    """

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        self._max_bytes = max_bytes
        self._kept: dict[Hashable, Kept] = {}
        self._uses = count(1)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Kept | None:
        kept = self._kept.get(key)
        if kept is not None:
            kept.used = next(self._uses)
        return kept

    def put(self, key: Hashable, kept: Kept) -> None:
        """Others make room for it. Raises ValueError: it alone is larger than the limit."""
        if kept.bytes > self._max_bytes:
            raise ValueError(f"has {kept.bytes} bytes, the cache has room for {self._max_bytes}: raise cache_size")
        self._remove(key)
        while self.bytes + kept.bytes > self._max_bytes:
            self._remove(min(self._kept, key=lambda one: self._kept[one].used))
        kept.used = next(self._uses)
        self._kept[key] = kept
        self.bytes += kept.bytes

    def _remove(self, key: Hashable) -> None:
        if (gone := self._kept.pop(key, None)) is not None:
            self.bytes -= gone.bytes


class Recent:
    """The last answers of another kind, by question."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def get(self, key: Hashable) -> Kept | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def put(self, key: Hashable, kept: Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        if len(self._kept) > self._max_entries:
            self._kept.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        self._kept.pop(key, None)
