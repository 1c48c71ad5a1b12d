"""What is kept of a registry's answers, and for how long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

MAX_ENTRIES = 10_000  # of each kind of answers but schemas: clients choose ids, and owners of topics their names


@dataclass(slots=True)
class Kept:
    answer: Any
    until: float  # after that it is asked for again
    is_of_use: bool  # also after that, while the registry does not respond
    bytes: int = 0
    was_used: bool = False  # since it was last considered for making room


class Schemas:
    """Schemas by their ids. They never change; the limit is in bytes.

    `get` needs no lock. What was used since room was last made is spared once ("second chance").
    """

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Kept | None:
        kept = self._kept.get(key)
        if kept is not None:
            kept.was_used = True
        return kept

    def put(self, key: Hashable, kept: Kept) -> None:
        """Others make room for it. Raises ValueError: it alone is larger than the limit."""
        if kept.bytes > self._max_bytes:
            raise ValueError(f"has {kept.bytes} bytes, the cache has room for {self._max_bytes}: raise cache_size")
        if (old := self._kept.pop(key, None)) is not None:
            self.bytes -= old.bytes
        self._kept[key] = kept
        self.bytes += kept.bytes
        while self.bytes > self._max_bytes:
            oldest, gone = next(iter(self._kept.items()))
            if gone.was_used:
                gone.was_used = False
                self._kept.move_to_end(oldest)
            elif oldest == key:
                self._kept.move_to_end(oldest)
            else:
                del self._kept[oldest]
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
