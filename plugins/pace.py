"""How long plug-ins take for a record, as measured: how many records fit into a turn of the event loop."""

from __future__ import annotations

import sys

MAX_TURN_S = 0.02  # that the records of one batch may take while all other connections wait
UNMEASURED_RECORDS = 4  # that are looked into at once before anything is known
WINDOW_RECORDS = 256  # about as many of the last records count


class Pace:
    """The time that the last records took. Threads may share it: a measurement that is lost does no harm."""

    __slots__ = ("_records", "_seconds", "records_at_once")

    def __init__(self) -> None:
        self.records_at_once = UNMEASURED_RECORDS  # that take no longer than a turn of the event loop may
        self._records = 0.0
        self._seconds = 0.0

    def add(self, records: int, seconds: float) -> None:
        """Count what a batch of ``records`` took."""
        if records < 1:
            return
        known = min(1.0, WINDOW_RECORDS / (self._records + 1))
        self._records = self._records * known + records
        self._seconds = self._seconds * known + seconds
        self.records_at_once = int(MAX_TURN_S * self._records / self._seconds) if self._seconds > 0 else sys.maxsize
