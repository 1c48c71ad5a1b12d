"""Fetch requests: what stands before the topics, and from which offsets they, or their fetch sessions, read.

This file runs as it is and compiled (fetch_positions.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor, cursor_at
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        Cursor,
        cursor_at,
    )

Partition = tuple[str | bytes, int]  # a topic's name, or since v13 its id of 16 bytes; the index

MAX_SCANNED = 64  # partitions that are looked for one by one
UNKNOWN = 0  # in place of an offset: all that a response holds is read
# For C.
_MAX_SCANNED, _UNKNOWN = MAX_SCANNED, UNKNOWN
NO_SESSION = -1  # the epoch of a request without a fetch session
CLIENT_ID_AT = 12
_NO_SESSION, _CLIENT_ID_AT = NO_SESSION, CLIENT_ID_AT  # for C

_FLEXIBLE = FetchRequest.declaration_.first_flexible
_MAX_BYTES = first_version(FetchRequest, "max_bytes")
_ISOLATION = first_version(FetchRequest, "isolation_level")
_SESSIONS = first_version(FetchRequest, "session_id")
_REPLICA_STATE = first_version(FetchRequest, "replica_state")
_IDS = first_version(FetchTopic, "topic_id")
_START_OFFSET = first_version(FetchPartition, "log_start_offset")
_LEADER_EPOCH = first_version(FetchPartition, "current_leader_epoch")
_FETCHED_EPOCH = first_version(FetchPartition, "last_fetched_epoch")


class FetchHead:
    """What a Fetch request says before its topics."""

    __slots__ = ("epoch_at", "isolation_level", "session_epoch", "session_id")

    isolation_level: int  # 1: committed records only
    session_id: int
    session_epoch: int  # 0: a session begins; -1: no session; more: it continues (KIP-227)
    epoch_at: int  # position of the session's epoch; 0: there is none


def open_request(data: bytes, at: int, end: int, flexible: bool) -> Cursor:
    """A cursor at the body of the request data[at:end], which begins with its length."""
    cursor = cursor_at(data, at, end, False)
    cursor.skip(_CLIENT_ID_AT)
    cursor.skip(cursor.length(2, True, "client_id"))
    cursor.flexible = flexible
    cursor.skip_tags()
    return cursor


def open_fetch(data: bytes, at: int, end: int, version: int) -> Cursor:
    """As `open_request`, for a Fetch of this version."""
    return open_request(data, at, end, version >= _FLEXIBLE)


def read_fetch_head(cursor: Cursor, version: int, found: FetchHead) -> None:
    """Read what stands before the topics."""
    cursor.skip(8 if version >= _REPLICA_STATE else 12)  # replica_id; max_wait_ms, min_bytes
    if version >= _MAX_BYTES:
        cursor.skip(4)
    found.isolation_level = cursor.integer(1) if version >= _ISOLATION else 0
    found.session_id, found.session_epoch, found.epoch_at = 0, _NO_SESSION, 0
    if version >= _SESSIONS:
        found.session_id = cursor.integer(4)
        found.epoch_at = cursor.at
        found.session_epoch = cursor.integer(4)


def names_ids(version: int) -> bool:
    """Whether topics are named by id."""
    return version >= _IDS


def has_sessions(version: int) -> bool:
    return version >= _SESSIONS


def bytes_before_offset(version: int) -> int:
    """Of a partition: its index, and since v9 the leader's epoch."""
    return 8 if version >= _LEADER_EPOCH else 4


def bytes_after_offset(version: int) -> int:
    """Of a partition, without its tags."""
    size = 4  # partition_max_bytes
    if version >= _START_OFFSET:
        size += 8
    if version >= _FETCHED_EPOCH:
        size += 4
    return size


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

    __slots__ = ("_version", "forgotten", "offsets")

    forgotten: list[Partition]  # that no longer belong to the session

    def __init__(self, version: int) -> None:
        self._version = version
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
        version, offsets = self._version, self.offsets
        before, after = bytes_before_offset(version) - 4, bytes_after_offset(version)
        offsets.clear()
        if self.forgotten:
            self.forgotten = []
        cursor = open_fetch(data, at, end, version)
        read_fetch_head(cursor, version, self)
        for _ in range(cursor.length(4, False, "topics")):
            topic = cursor.topic(names_ids(version), offsets.expected(known))
            for _ in range(cursor.length(4, False, "partitions")):
                index = cursor.integer(4)
                cursor.skip(before)
                offsets.add(topic, index, cursor.integer(8))
                cursor.skip(after)
                cursor.skip_tags()
            cursor.skip_tags()
        if has_sessions(version):
            for _ in range(cursor.length(4, False, "forgotten_topics_data")):
                topic = cursor.topic(names_ids(version))
                for _ in range(cursor.length(4, False, "partitions")):
                    self.forgotten.append((topic, cursor.integer(4)))
                cursor.skip_tags()
