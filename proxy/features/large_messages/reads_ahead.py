"""What is read while a client receives a large message: the beginning of what its next Fetch will ask for.

Only for a client that has got one large message after the other and nothing else: where there are small ones between
them, the broker's next response has most of what comes. A process keeps a limited number of bytes, for a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import batches
from kafka_sidecar.codec.visibility import offsets_of
from kafka_sidecar.large_messages.reading import Fetched, Read

MAX_AGE_S = 5.0  # a client that goes on does so at once
MAX_READERS = 10_000  # of which it is remembered where they go on


class Reader(NamedTuple):
    """Who reads what. No other client gets it, because brokers may allow this one alone to read the topic."""

    connection: int
    topic: bytes | str  # as in the frames: its name, or since v13 its id
    partition: int
    is_committed_only: bool


@dataclass(slots=True)
class _Ahead:
    offset: int
    size: int  # bytes
    began: float  # seconds
    fetched: Fetched | None = None  # None: has not come yet


class ReadsAhead:
    """One read for each reader; it is taken once."""

    def __init__(self, limit: int, stopwatch: Callable[[], float]) -> None:
        """``limit``: bytes of all readers together."""
        self.limit = limit
        self._stopwatch = stopwatch
        self._ahead: dict[Reader, _Ahead] = {}  # the oldest is the first
        self._next: dict[Reader, int] = {}  # the offset after a response with large messages alone; the oldest first
        self.bytes = 0

    def begin(self, reader: Reader, since: int, until: int, need: Read) -> bool:
        """Whether what comes next may be read now, and is not being read already.

        The reader gets a response with large messages alone, which begins at ``since`` and ends before ``until``.
        """
        if (ahead := self._ahead.get(reader)) is not None and ahead.offset == need.offset:
            return False
        self.forget(reader)
        before = self._next.pop(reader, None)
        self._next[reader] = until
        if len(self._next) > MAX_READERS:
            del self._next[next(iter(self._next))]
        if before != since:
            return False
        self.forget_old()
        if self.bytes + need.max_bytes > self.limit:
            return False
        self._ahead[reader] = _Ahead(need.offset, need.max_bytes, self._stopwatch())
        self.bytes += need.max_bytes
        return True

    def came(self, reader: Reader, fetched: Fetched) -> None:
        """The broker has responded."""
        ahead = self._ahead.get(reader)
        if ahead is not None and ahead.fetched is None:
            self.bytes += len(fetched.records) - ahead.size
            ahead.fetched, ahead.size = fetched, len(fetched.records)

    def take(self, reader: Reader, offset: int) -> Fetched | None:
        """What was read from this offset on; None: nothing. Other offsets are forgotten: the client reads elsewhere."""
        self.forget_old()
        ahead = self._ahead.get(reader)
        self.forget(reader)
        if ahead is None or ahead.fetched is None or not ahead.offset <= offset:
            return None
        return _since(ahead.fetched, offset)

    def forget(self, reader: Reader) -> None:
        """The reader does not need it."""
        if (ahead := self._ahead.pop(reader, None)) is not None:
            self.bytes -= ahead.size

    def forget_old(self) -> None:
        """Forget what no client has asked for in time."""
        since = self._stopwatch() - MAX_AGE_S
        while self._ahead and (oldest := next(iter(self._ahead.items())))[1].began < since:
            self.forget(oldest[0])


def _since(fetched: Fetched, offset: int) -> Fetched | None:
    """The batches that end at the offset or after it; None: there are none."""
    try:
        found = batches(fetched.records, may_end_early=True)
    except CodecError:
        return None
    at = 0
    for batch in found:
        if offsets_of(batch)[1] >= offset:
            return replace(fetched, records=memoryview(fetched.records)[at:])
        at += len(batch.data)
    return None
