"""Fetch requests: what stands before the topics, and from which offsets they, or their fetch sessions, read.

This file runs as it is and compiled (fetch_positions.pxd holds the C types).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kafka_sidecar.codec.message import fixed_start, has_field, plan, plans
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor, cursor_at, read_big_endian
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        Cursor,
        cursor_at,
        read_big_endian,
    )

Partition = tuple[str | bytes, int]  # a topic's name, or since v13 its id of 16 bytes; the index

MAX_SCANNED = 64  # partitions that are looked for one by one
UNKNOWN = 0  # in place of an offset: all that a response holds is read
# For C.
_MAX_SCANNED, _UNKNOWN = MAX_SCANNED, UNKNOWN
NO_SESSION = -1  # the epoch of a request without a fetch session
_NO_SESSION = NO_SESSION  # for C


class FetchHead:
    """What a Fetch request says before its topics."""

    __slots__ = ("epoch_at", "isolation_level", "max_bytes_at", "session_epoch", "session_id", "topics_at")

    isolation_level: int  # 1: committed records only
    session_id: int
    session_epoch: int  # 0: a session begins; -1: no session; more: it continues (KIP-227)
    epoch_at: int  # position of the session's epoch; 0: there is none
    max_bytes_at: int  # the same
    topics_at: int  # position of their count


@cache
def _head_plans(version: int) -> tuple[Any, ...]:
    """Whether it is flexible; the plans of `open_fetch`; None: this version does not have the field."""
    read = ("max_bytes", "isolation_level", "session_id", "session_epoch", "topics")
    return FetchRequest.declaration_.is_flexible(version), *plans(FetchRequest, version, *read)[:-1]


def open_fetch(data: bytes, at: int, end: int, version: int, found: FetchHead) -> Cursor:
    """A cursor at the topics of the request data[at:end], which begins with its length; what is before is ``found``."""
    flexible, to_max_bytes, to_isolation, to_session, to_epoch, to_topics = _head_plans(version)
    cursor = cursor_at(data, at, end, flexible)
    cursor.skip_request_header(flexible)
    found.isolation_level = found.session_id = found.epoch_at = found.max_bytes_at = 0
    found.session_epoch = _NO_SESSION
    if to_max_bytes is not None:
        cursor.follow(to_max_bytes)
        found.max_bytes_at = cursor.take(4)
    if to_isolation is not None:
        cursor.follow(to_isolation)
        found.isolation_level = cursor.integer(1)
    if to_session is not None:
        cursor.follow(to_session)
        found.session_id = cursor.integer(4)
        cursor.follow(to_epoch)
        found.epoch_at = cursor.at
        found.session_epoch = cursor.integer(4)
    cursor.follow(to_topics)
    found.topics_at = cursor.at
    return cursor


class Asked:
    """A partition, and from where it is read."""

    __slots__ = ("index", "key", "offset")

    key: str | bytes  # as in `Partition`
    index: int
    offset: int


class Offsets:
    """Offsets of partitions, in the order of requests: the next one to be found is likely the one after the last.

    Objects of rows are used again after `clear`.
    """

    __slots__ = ("_by_partition", "_next", "_rows", "size")

    def __init__(self) -> None:
        self._rows: list[Asked] = []
        self._by_partition: dict[Partition, Asked] | None = None  # of more than can be scanned, once one was looked for
        self._next = 0
        self.size = 0  # rows in use

    def clear(self) -> None:
        self.size = self._next = 0
        self._by_partition = None

    def expected(self, known: str | bytes | None) -> str | bytes | None:
        """The topic that the next row had in the last request, as this one most likely names it too; else ``known``."""
        return self._rows[self.size].key if self.size < len(self._rows) else known

    def add(self, key: str | bytes, index: int, offset: int) -> None:
        """Add a partition that is not there yet."""
        if self.size < len(self._rows):
            row = self._rows[self.size]
        else:
            row = Asked.__new__(Asked)
            self._rows.append(row)
        row.key, row.index, row.offset = key, index, offset
        self.size += 1
        if self._by_partition is not None:
            self._by_partition.setdefault((key, index), row)

    def get(self, key: str | bytes, index: int) -> int:
        """From where a partition is read, or `UNKNOWN`."""
        row = self._find(key, index)
        return _UNKNOWN if row is None else row.offset

    def update(self, named: Offsets) -> None:
        """Take the offsets of a later request."""
        for place in range(named.size):
            row = named._rows[place]
            known = self._find(row.key, row.index)
            if known is None:
                self.add(row.key, row.index, row.offset)
            else:
                known.offset = row.offset

    def forget(self, key: str | bytes, index: int) -> None:
        """The partition has left the session. Its row stays: in most cases it comes back."""
        row = self._find(key, index)
        if row is not None:
            row.offset = _UNKNOWN

    def _find(self, key: str | bytes, index: int) -> Asked | None:
        if self.size > _MAX_SCANNED:
            return self._look_up(key, index)
        place = self._next
        for _ in range(self.size):
            if place >= self.size:
                place = 0
            row = self._rows[place]
            place += 1
            if row.index == index and (row.key is key or row.key == key):
                if row.key is not key:
                    row.key = key  # the same object is found in fewer steps next time
                self._next = place
                return row
        return None

    def _look_up(self, key: str | bytes, index: int) -> Asked | None:
        if self._by_partition is None:
            self._by_partition = {}
            for row in self._rows[: self.size]:
                self._by_partition.setdefault((row.key, row.index), row)
        return self._by_partition.get((key, index))


class FetchPositions(FetchHead):
    """What a Fetch request asks for. One object reads the requests of one version, one after the other."""

    __slots__ = (
        "_after_fixed", "_after_forgotten", "_after_partitions", "_by_id", "_fixed_size", "_offset_at", "_to_forgotten",
        "_version", "forgotten", "offsets",
    )  # fmt: skip

    forgotten: list[Partition]  # that no longer belong to the session

    def __init__(self, version: int) -> None:
        self._version = version
        self._by_id = has_field(FetchTopic, "topic_id", version)
        self._fixed_size, places, self._after_fixed = fixed_start(FetchPartition, version)
        self._offset_at = places["fetch_offset"]
        self._after_partitions = plan(FetchTopic, version, after="partitions")
        _, self._to_forgotten, _ = plans(FetchRequest, version, "topics", "forgotten_topics_data")
        has_forgotten = self._to_forgotten is not None
        self._after_forgotten = plan(ForgottenTopic, version, after="partitions") if has_forgotten else b""
        self.offsets = Offsets()
        self.forgotten = []

    def size(self) -> int:
        """The partitions that the request names."""
        return self.offsets.size + len(self.forgotten)

    def read(self, data: bytes, at: int, end: int, known: str | bytes | None = None) -> None:
        """Read the request data[at:end], which begins with its length. A topic equal to ``known`` is that object.

        Raises:
            CodecError: these bytes are no such request.
        """
        offsets = self.offsets
        offsets.clear()
        if self.forgotten:
            self.forgotten = []
        cursor = open_fetch(data, at, end, self._version, self)
        for _ in range(cursor.length(4, False, "topics")):
            topic = cursor.topic(self._by_id, offsets.expected(known))
            for _ in range(cursor.length(4, False, "partitions")):
                here = cursor.take(self._fixed_size)
                offset = read_big_endian(data, here + self._offset_at, 8)
                offsets.add(topic, read_big_endian(data, here, 4), offset)
                cursor.follow(self._after_fixed)
            cursor.follow(self._after_partitions)
        if self._to_forgotten is not None:
            cursor.follow(self._to_forgotten)
            for _ in range(cursor.length(4, False, "forgotten_topics_data")):
                topic = cursor.topic(self._by_id)
                for _ in range(cursor.length(4, False, "partitions")):
                    self.forgotten.append((topic, cursor.integer(4)))
                cursor.follow(self._after_forgotten)
