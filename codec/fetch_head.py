"""The beginning of a Fetch request, up to its topics; the size of what it says of a partition.

This file runs as it is and compiled (fetch_head.pxd holds the C types).
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
