"""The needs of assembling a partition, reads of its log and of objects; and what it reports.

Whoever meets them raises TimeoutError where the client must get its response now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.plugins.effects import Need, Steps, Work

T = TypeVar("T")

MAX_INLINE_BYTES = 1 << 20  # to be looked into while others wait
READ_BYTES = 16 << 20  # of one read: a longer one would hold up the connection's other responses


@dataclass(frozen=True, slots=True)
class Read(Need):
    """Read the partition from ``offset`` on: at least one batch, about ``max_bytes``. Answered with `Fetched`."""

    offset: int
    max_bytes: int
    committed_only: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the broker has responded to a `Read`."""

    error_code: int
    records: bytes | memoryview = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Collection[AbortedTransaction] = ()


@dataclass(frozen=True, slots=True)
class ReadObject(Need):
    """Read an object of at most ``max_size`` bytes from the object store. Answered with None: there is none."""

    key: str
    max_size: int


def compute(run: Callable[[], T], data: bytes | memoryview) -> Steps[T]:
    """The result of work on so many bytes, in a thread if it takes long."""
    if len(data) <= MAX_INLINE_BYTES:
        return run()
    result: T = yield Work(run)
    return result


class UnreadableError(Exception):
    """The broker does not let the log be read now; the client may try again."""

    def __init__(self, error_code: int) -> None:
        super().__init__(f"the broker has responded with error {error_code}")
        self.error_code = error_code


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

    def seen(self, start: int, end: int) -> None:
        """All segments from ``start`` to ``end``, exclusive, that the log has, were reported as one of the above."""

    def withheld(self, offset: int, reason: str) -> None:
        """What begins at this offset may be a segment and cannot be looked into: no consumer gets it, or what follows.
        ``reason`` is a label value of a metric."""

    def dropped(self, offset: int, reason: str, message_id: bytes | None) -> None:
        """A message cannot be assembled, or a record is damaged, whose message is not known, or is a copy of one that
        was delivered, whose message is where that is: both without id. ``reason`` is a label value of a metric."""
