"""What assembling reports, for counters, log lines and the offsets that commits need."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """Is notified of what becomes of the large messages of one partition. Called in the event loop and in order."""

    def read(self, size: int) -> None:
        """The log was read for a message: so many bytes."""

    def looked_back(self) -> None:
        """The log before a message is read, to find its segments."""

    def hidden(self, offset: int, message_id: bytes) -> None:
        """A segment that does not complete its message."""

    def assembled(self, message_id: bytes, start: int, end: int, size: int) -> None:
        """A message of ``size`` bytes, whose first segment is at ``start`` and whose own offset is ``end``."""

    def was_aborted(self, offset: int, message_id: bytes) -> None:
        """A message whose transaction was aborted: no reader of committed records will get it."""

    def withheld(self, offset: int, reason: str) -> None:
        """What begins at this offset may be a segment and cannot be looked into: no consumer gets it, or what follows.
        ``reason`` is a label value of a metric."""

    def dropped(self, offset: int, reason: str, message_id: bytes | None) -> None:
        """A message cannot be assembled, or a record is damaged: then its message is not known. ``reason`` is a label
        value of a metric."""
