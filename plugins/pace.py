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

    __slots__ = ("_is_trusted", "_left", "_records", "_seconds", "records_at_once", "records_per_turn")

    def __init__(self, is_trusted: bool = True) -> None:
        """``is_trusted``: without probation."""
        self.records_per_turn = UNMEASURED_RECORDS  # that take no longer than a turn of the event loop may
        self._records = 0.0
        self._seconds = 0.0
        self._is_trusted = is_trusted
        self._left = 0 if is_trusted else PROBATION_BATCHES  # batches until the probation ends
        self.records_at_once = 0 if self._left else self.records_per_turn  # that may be looked into in the event loop

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
        if records > 0:
            known, spent_s = self._records, self._seconds
            if known >= WINDOW_RECORDS:
                share = WINDOW_RECORDS / (known + 1)
                known, spent_s = known * share, spent_s * share
            self._records = known = known + records
            self._seconds = spent_s = spent_s + seconds
            self.records_per_turn = int(MAX_TURN_S * known / spent_s) if spent_s > 0 else sys.maxsize
        self.records_at_once = 0 if self._left else self.records_per_turn
