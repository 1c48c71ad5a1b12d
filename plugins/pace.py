"""How long plug-ins take for a record, as measured: how many records fit into a turn of the event loop.

A plug-in that is not ours is on probation first: it is called in threads, where one that blocks keeps no other
client waiting.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

MAX_TURN_S = 0.02  # that the records of one batch may take while all other connections wait
UNMEASURED_RECORDS = 4  # that are looked into at once before anything is known
WINDOW_RECORDS = 256  # about as many of the last records count
PROBATION_BATCHES = 1000  # that a plug-in sees in threads at first, and again after one that took too long
TOO_LONG_S = 0.1  # of one batch: it has blocked
OURS = "kafka_sidecar."


def are_ours(plug_ins: Iterable[object]) -> bool:
    """Whether all of them are built in: they are known not to block."""
    return all(type(one).__module__.startswith(OURS) for one in plug_ins)


class Pace:
    """The time that the last records took. Threads may share it: a measurement that is lost does no harm."""

    __slots__ = ("_is_trusted", "_left", "_records", "_seconds", "records_per_turn")

    def __init__(self, is_trusted: bool = True) -> None:
        """``is_trusted``: without probation."""
        self.records_per_turn = UNMEASURED_RECORDS  # that take no longer than a turn of the event loop may
        self._records = 0.0
        self._seconds = 0.0
        self._is_trusted = is_trusted
        self._left = 0 if is_trusted else PROBATION_BATCHES  # batches until the probation ends

    @property
    def records_at_once(self) -> int:
        """How many records may be looked into in the event loop."""
        return 0 if self._left else self.records_per_turn

    @property
    def needs_thread(self) -> bool:
        """Whether anything at all must not be looked into in the event loop."""
        return self._left > 0 or self.records_per_turn < 1

    def add(self, records: int, seconds: float) -> None:
        """Count what a batch of ``records`` took."""
        if not self._is_trusted:
            if seconds > TOO_LONG_S:
                self._left = PROBATION_BATCHES
            elif self._left:
                self._left -= 1
        if records < 1:
            return
        known = min(1.0, WINDOW_RECORDS / (self._records + 1))
        self._records = self._records * known + records
        self._seconds = self._seconds * known + seconds
        self.records_per_turn = int(MAX_TURN_S * self._records / self._seconds) if self._seconds > 0 else sys.maxsize
