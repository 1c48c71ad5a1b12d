"""What was read of the log: enough to notice that it is another one now, or has lost some of it.

A log that goes on from where it was read may lack tombstones and what they have deleted. One that was deleted and
created again, emptied or cut off says nothing about the configs that were read before.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode

from kafka_sidecar.codec.wire import NO_ID


class LogLostError(Exception):
    """The log does not hold what was read of it. The text says why, for a person."""


class LogHistory:
    """One log, from the beginning of its reading on."""

    __slots__ = ("_lost", "_next_offset", "_offsets", "_topic_id")

    def __init__(self) -> None:
        self._topic_id = NO_ID  # not known yet
        self._next_offset = 0  # all below is read
        self._offsets: dict[bytes, int] = {}  # of the last record of each key, if it has a value
        self._lost: str | None = None

    def read(self, offset: int, key: bytes, value: bytes | None) -> None:
        """The next record."""
        self._next_offset = offset + 1
        if value is None:
            self._offsets.pop(key, None)
        else:
            self._offsets[key] = offset

    def check_id(self, topic_id: bytes | None) -> None:
        """Compare the id that the topic has now: zeros where it does not exist, None where no broker says.

        Raises LogLostError. A topic that is missing may come back: brokers learn of topics one after another. One that
        was created again is another topic for ever, whatever a broker says that has not learned of it yet.
        """
        if topic_id == NO_ID and self._topic_id != NO_ID:
            raise LogLostError("it no longer exists")
        if self._topic_id == NO_ID:
            self._topic_id = topic_id or NO_ID
        if topic_id is not None and topic_id != self._topic_id:
            self._lose(f"it was created again: its id was {_printed(self._topic_id)}, now it is {_printed(topic_id)}")
        self._raise_if_lost()

    def check_offsets(self, start: int, end: int) -> None:
        """Compare where the log begins and ends now. Raises LogLostError."""
        if end < self._next_offset:
            self._lose(f"it was truncated: it was read up to offset {self._next_offset}, now it ends at {end}")
        elif any(offset < start for offset in self._offsets.values()):
            self._lose(f"records were deleted: now it begins at offset {start}")
        self._raise_if_lost()

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise LogLostError(self._lost)


def _printed(topic_id: bytes) -> str:
    """As kafka-topics.sh --describe prints it."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()
