"""Reads only the topics of a Produce or Fetch request: they decide whether the request must be buffered at all.

``data`` holds at least the beginning of the request frame at ``at``; ``size`` is that of the frame with its length."""

from __future__ import annotations

from kafka_sidecar.codec.cursor import Cursor
from kafka_sidecar.codec.errors import CodecError, TooManyError
from kafka_sidecar.codec.fetch_positions import (
    FetchHead,
    bytes_after_offset,
    bytes_before_offset,
    names_ids,
    open_fetch,
    open_request,
    read_fetch_head,
)
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.wire import ID_SIZE, UNLIMITED

Topics = tuple[str | bytes, ...]  # names, or since v13 16-byte ids

_PRODUCE_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_PRODUCE_TRANSACTIONS = first_version(ProduceRequest, "transactional_id")
_PRODUCE_IDS = first_version(TopicProduceData, "topic_id")

_FETCH_MAX = 18


class FetchGlance(FetchHead):
    """The topics and the session of a Fetch request."""

    __slots__ = ("named_to", "topics")

    topics: Topics
    named_to: int  # end of the name of the first topic; 0: there is none

    @property
    def goes_on(self) -> bool:
        """Whether the response can contain topics that this request does not name."""
        return self.session_epoch > 0


def glance_produce(
    data: bytes, at: int, size: int, version: int, max_partitions: int = UNLIMITED
) -> tuple[Topics, int]:
    """The topics of a Produce request, and the end of the last one's name.

    No topics if too little of the request has arrived, it is malformed, or has too many partitions or topics. Of a
    request with one topic, the name is enough; with several, all of it is needed.
    """
    by_id = version >= _PRODUCE_IDS
    end = at
    topics: list[str | bytes] = []
    try:
        cursor = open_request(data, at, min(len(data), at + size), version >= _PRODUCE_FLEXIBLE)
        if version >= _PRODUCE_TRANSACTIONS:
            cursor.skip(cursor.length(2, True, "transactional_id"))
        cursor.limit(max_partitions)
        cursor.skip(6)  # acks, timeout_ms
        count = cursor.topics(1, "topic_data")
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
    """Skip the rest of a topic of a Produce request after its name."""
    for _ in range(cursor.partitions(1, "partition_data")):
        cursor.skip(4)  # index
        cursor.skip(cursor.length(4, True, "records"))
        cursor.skip_tags()
    cursor.skip_tags()


def glance_fetch(data: bytes, at: int, size: int, version: int, max_partitions: int = UNLIMITED) -> FetchGlance | None:
    """The topics and the session of a Fetch request.

    None: it has not arrived completely, is malformed, or has too many partitions or topics.
    """
    if len(data) < at + size or version > _FETCH_MAX:
        return None
    found = FetchGlance.__new__(FetchGlance)
    found.named_to = 0
    topics: list[str | bytes] = []
    try:
        cursor = open_fetch(data, at, at + size, version)
        cursor.limit(max_partitions)
        read_fetch_head(cursor, version, found)
        for _ in range(cursor.topics(1, "topics")):
            topics.append(_topic(cursor, data, names_ids(version)))
            found.named_to = found.named_to or cursor.at
            _skip_fetched(cursor, version)
    except (CodecError, UnicodeDecodeError):
        return None
    found.topics = tuple(topics)
    return found


def check_fetch_partitions(frame: bytes, version: int, max_partitions: int) -> None:
    """Check the counts of a Fetch request, which may be malformed otherwise.

    Raises:
        TooManyError: it announces more than ``max_partitions`` partitions, or topics.
    """
    try:
        cursor = open_fetch(frame, 0, len(frame), version)
        cursor.limit(max_partitions)
        read_fetch_head(cursor, version, FetchHead.__new__(FetchHead))
        for _ in range(cursor.topics(1, "topics")):
            cursor.skip(ID_SIZE if names_ids(version) else cursor.length(2, False, "a topic's name"))
            _skip_fetched(cursor, version)
    except TooManyError:
        raise
    except CodecError:
        return


def _skip_fetched(cursor: Cursor, version: int) -> None:
    """Skip the rest of a topic of a Fetch request after its name."""
    size = bytes_before_offset(version) + 8 + bytes_after_offset(version)
    for _ in range(cursor.partitions(size, "partitions")):
        cursor.skip(size)
        cursor.skip_tags()
    cursor.skip_tags()


def _topic(cursor: Cursor, data: bytes, by_id: bool) -> str | bytes:
    """The name or id of a topic. Raises UnicodeDecodeError if the name is not UTF-8."""
    if by_id:
        return cursor.topic(True)
    size = cursor.length(2, False, "a topic's name")
    cursor.skip(size)
    return data[cursor.at - size : cursor.at].decode()
