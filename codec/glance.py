"""Which topics a Produce or a Fetch request names, without reading more of it than that: whether it is collected at all
is decided by them.

``data`` holds at least the beginning of the request frame at ``at``, ``size`` its bytes with the length before it.
This file runs as it is and compiled (glance.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor
else:
    from cython.cimports.kafka_sidecar.codec.cursor import Cursor  # type: ignore[no-redef]

Topics = tuple[str | bytes, ...]  # names, or since v13 16-byte ids

NO_SESSION = -1  # an epoch: the request stands for itself
_NO_SESSION = NO_SESSION  # for C
_CLIENT_ID_AT = 12

_PRODUCE_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_PRODUCE_TRANSACTIONS = first_version(ProduceRequest, "transactional_id")
_PRODUCE_IDS = first_version(TopicProduceData, "topic_id")

_FETCH_FLEXIBLE = FetchRequest.declaration_.first_flexible
_FETCH_OLDEST, _FETCH_NEWEST = 4, 18
_FETCH_START_OFFSET = first_version(FetchPartition, "log_start_offset")
_FETCH_SESSIONS = first_version(FetchRequest, "session_id")
_FETCH_LEADER_EPOCH = first_version(FetchPartition, "current_leader_epoch")
_FETCH_FETCHED_EPOCH = first_version(FetchPartition, "last_fetched_epoch")
_FETCH_IDS = first_version(FetchTopic, "topic_id")
_FETCH_REPLICA_STATE = first_version(FetchRequest, "replica_state")


class FetchGlance:
    """What a Fetch request says of the topics that it reads."""

    __slots__ = ("epoch_at", "named_to", "session_epoch", "topics")

    session_epoch: int  # 0: a session begins; -1: none; more: it goes on (KIP-227)
    topics: Topics
    epoch_at: int  # where the session's epoch is; 0: there is none
    named_to: int  # where the name of the first topic ends; 0: there is none

    @property
    def goes_on(self) -> bool:
        """Whether the response may hold topics that this request does not name."""
        return self.session_epoch > 0


def glance_produce(data: bytes, at: int, size: int, version: int) -> tuple[Topics, int]:
    """The topics of a Produce request, and where the name of the last one ends.

    No topics where too little of the request is here, or it cannot be read. The first name is enough of a request with
    one topic; of several, all of it must be here.
    """
    by_id = version >= _PRODUCE_IDS
    end = at
    topics: list[str | bytes] = []
    try:
        cursor = _open(data, at, size, version >= _PRODUCE_FLEXIBLE)
        if version >= _PRODUCE_TRANSACTIONS:
            cursor.skip(cursor.length(2, True, "transactional_id"))
        cursor.skip(6)  # acks, timeout_ms
        count = cursor.count(1, "topic_data")
        if count > 1 and len(data) < at + size:
            return (), at
        for index in range(count):
            topics.append(_topic(cursor, data, by_id))
            end = cursor.at
            if index < count - 1:
                _skip_produced(cursor)
    except (CodecError, UnicodeDecodeError):
        return (), at
    return tuple(topics), end


def _skip_produced(cursor: Cursor) -> None:
    """To the end of a topic of a Produce request whose name has been read."""
    for _ in range(cursor.count(1, "partition_data")):
        cursor.skip(4)  # index
        cursor.skip(cursor.length(4, True, "records"))
        cursor.skip_tags()
    cursor.skip_tags()


def glance_fetch(data: bytes, at: int, size: int, version: int) -> FetchGlance | None:
    """The topics and the session of a Fetch request; None: not all of it is here, or it cannot be read."""
    if len(data) < at + size or not _FETCH_OLDEST <= version <= _FETCH_NEWEST:
        return None
    by_id = version >= _FETCH_IDS
    found = FetchGlance.__new__(FetchGlance)
    found.session_epoch, found.epoch_at, found.named_to = _NO_SESSION, 0, 0
    topics: list[str | bytes] = []
    try:
        cursor = _open(data, at, size, version >= _FETCH_FLEXIBLE)
        # replica_id; max_wait_ms, min_bytes, max_bytes, isolation_level
        cursor.skip(13 if version >= _FETCH_REPLICA_STATE else 17)
        if version >= _FETCH_SESSIONS:
            cursor.skip(4)  # session_id
            found.epoch_at = cursor.at
            found.session_epoch = cursor.integer(4)
        for _ in range(cursor.count(1, "topics")):
            topics.append(_topic(cursor, data, by_id))
            found.named_to = found.named_to or cursor.at
            _skip_fetched(cursor, version)
    except (CodecError, UnicodeDecodeError):
        return None
    found.topics = tuple(topics)
    return found


def _skip_fetched(cursor: Cursor, version: int) -> None:
    """To the end of a topic of a Fetch request whose name has been read."""
    size = 16  # partition, fetch_offset, partition_max_bytes
    if version >= _FETCH_START_OFFSET:
        size += 8
    if version >= _FETCH_LEADER_EPOCH:
        size += 4
    if version >= _FETCH_FETCHED_EPOCH:
        size += 4
    for _ in range(cursor.count(size, "partitions")):
        cursor.skip(size)
        cursor.skip_tags()
    cursor.skip_tags()


def _open(data: bytes, at: int, size: int, flexible: bool) -> Cursor:
    """Where the body of the request begins."""
    cursor = Cursor(data, at, min(len(data), at + size), False)
    cursor.skip(_CLIENT_ID_AT)
    cursor.skip(cursor.length(2, True, "client_id"))
    cursor.flexible = flexible
    cursor.skip_tags()
    return cursor


def _topic(cursor: Cursor, data: bytes, by_id: bool) -> str | bytes:
    """The name or id of a topic. Raises UnicodeDecodeError where the name is not UTF-8."""
    if by_id:
        return cursor.topic(True)
    size = cursor.length(2, False, "a topic's name")
    cursor.skip(size)
    return data[cursor.at - size : cursor.at].decode()
