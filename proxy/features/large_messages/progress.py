"""Slices that are stored and whose message is not: a producer that sends the message again goes on after them.

A byte quota mutes a connection after each slice, so a large value may take longer than its producer waits. Without
this each retry would begin at the first slice, and never come to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

MAX_AGE_S = 600.0  # for which progress waits for the next attempt
MAX_BYTES = 4 << 20  # of all progress
ENTRY_BYTES, SLICE_BYTES = 600, 250  # that one takes about

Print = tuple[int, int]  # of a slice: its size and CRC-32C as a batch, which also has the message's id and its number


class Attempt(Protocol):
    """Who sends a message."""

    has_closed: bool  # it waits no more


class Progress:
    """The slices of one message that are stored, from one attempt to the next."""

    __slots__ = ("_slices", "at", "is_final", "is_stored", "is_throttled", "mark", "owner", "random", "weight")

    def __init__(self, mark: bytes, random: bytes, owner: Attempt) -> None:
        self.mark = mark  # by which the message is recognised when it is sent again
        self.random = random  # of which its id is made, if that is random
        self.owner: Attempt | None = owner  # None: it waits for the next one
        self.is_final = False  # the carrier may be stored, and must not be once more
        self.is_stored = False  # the message is, and its producer may not know it
        self.is_throttled = False  # by the broker, when it has last responded
        self.at = 0.0  # seconds, when it was put back
        self.weight = 0  # bytes that it took then, about
        self._slices: dict[int, tuple[Print, int]] = {}  # by number, with the offset

    @property
    def count(self) -> int:
        return len(self._slices)

    def offset(self, number: int, fingerprint: Print) -> int | None:
        """Where this slice is stored; None: it is not, or as another one."""
        found = self._slices.get(number)
        return found[1] if found is not None and found[0] == fingerprint else None

    def add(self, number: int, fingerprint: Print, offset: int) -> None:
        """A slice is stored."""
        self._slices[number] = fingerprint, offset

    def keep(self, prints: Mapping[int, Print]) -> int:
        """Forget slices that are not these; how many."""
        before = len(self._slices)
        self._slices = {at: one for at, one in self._slices.items() if prints.get(at) == one[0]}
        return before - len(self._slices)


class ProgressStore:
    """All progress of a process, bounded in bytes and in time."""

    def __init__(self, clock: Callable[[], float], orphaned: Callable[[int], None]) -> None:
        """
        Args:
            clock: seconds.
            orphaned: is called with the number of slices that no attempt will use.
        """
        self._clock = clock
        self._orphaned = orphaned
        self._found: dict[bytes, Progress] = {}  # by mark, those that have waited longest first
        self._bytes = 0  # of those that wait

    def random_of(self, mark: bytes) -> bytes | None:
        """Of which an earlier attempt has made its id. May be called in any thread."""
        found = self._found.get(mark)
        return found.random if found is not None else None

    def begin(self, mark: bytes, random: bytes, attempt: Attempt) -> Progress:
        """What the last attempt has left, taken by this one; nothing if another one is still at it."""
        self.expire()
        found = self._found.get(mark)
        if found is None:
            found = self._found[mark] = Progress(mark, random, attempt)
        elif found.is_final or (found.owner is not None and not found.owner.has_closed):
            return Progress(mark, random, attempt)
        elif found.owner is None:
            self._bytes -= found.weight
        found.owner = attempt
        return found

    def put_back(self, progress: Progress) -> None:
        """The attempt has ended, and its client may try again."""
        if self._found.get(progress.mark) is not progress or not progress.count:
            self.abandon(progress)
            return
        del self._found[progress.mark]
        self._found[progress.mark] = progress
        progress.owner, progress.is_final, progress.at = None, False, self._clock()
        progress.weight = ENTRY_BYTES + SLICE_BYTES * progress.count
        self._bytes += progress.weight
        self.expire()

    def abandon(self, progress: Progress) -> None:
        """No attempt will use its slices."""
        self.end(progress)
        self.keep(progress, {})

    def keep(self, progress: Progress, prints: Mapping[int, Print]) -> None:
        """No attempt will use slices that are not these, by their numbers."""
        dropped = progress.keep(prints)
        if dropped and not progress.is_stored:
            self._orphaned(dropped)

    def end(self, progress: Progress) -> None:
        """The message is stored, or it is not known."""
        if self._found.get(progress.mark) is progress:
            del self._found[progress.mark]
            if progress.owner is None:
                self._bytes -= progress.weight

    def expire(self) -> None:
        """Abandon what has waited too long, and the oldest of what is too much."""
        oldest = self._clock() - MAX_AGE_S
        for progress in list(self._waiting()):
            if progress.at >= oldest and self._bytes <= MAX_BYTES:
                return
            self.abandon(progress)

    def _waiting(self) -> list[Progress]:
        if not self._bytes:
            return []
        return [one for one in self._found.values() if one.owner is None]
