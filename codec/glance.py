"""Reads only the topics of a Produce or Fetch request: they decide whether the request must be buffered at all.

``data`` holds at least the beginning of the request frame at ``at``; ``size`` is that of the frame with its length."""

from __future__ import annotations

from kafka_sidecar.codec.cursor import Cursor, cursor_at
from kafka_sidecar.codec.errors import CodecError, TooManyError
from kafka_sidecar.codec.fetch_positions import FetchHead, open_fetch
from kafka_sidecar.codec.message import TAGS, Struct, has_field, plan
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_sidecar.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_sidecar.codec.wire import ID_SIZE, UNLIMITED

Topics = tuple[str | bytes, ...]  # names, or since v13 16-byte ids


_NEWEST_FETCH = FetchRequest.declaration_.versions.high  # type: ignore[union-attr]
_REPLICA_BEFORE = 12  # bytes before max_bytes
_NEGATIVE = 0x80  # or more: first byte of a negative number
_MAX_AFTER_TOPICS = 64 << 10  # bytes that are walked through


class FetchGlance(FetchHead):
    """The topics and the session of a Fetch request."""

    __slots__ = ("elements", "may_be_replica", "named_to", "topics")

    topics: Topics
    named_to: int  # end of the name of the first topic; 0: there is none
    elements: tuple[int, int, int]  # the partitions of the last topic: their number, where the first begins, their end
    may_be_replica: bool  # whether it can say that it is one; from version 4 on

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
    by_id, flexible = has_field(TopicProduceData, "topic_id", version), ProduceRequest.declaration_.is_flexible(version)
    end = at
    topics: list[str | bytes] = []
    try:
        cursor = cursor_at(data, at, min(len(data), at + size), flexible)
        cursor.skip_request_header(flexible)
        cursor.limit(max_partitions)
        cursor.follow(plan(ProduceRequest, version, before="topic_data"))
        count = cursor.topics(1, "topic_data")
        if count > 1 and len(data) < at + size:
            return (), at
        for index in range(count):
            topics.append(_topic(cursor, data, by_id))
            end = cursor.at
            if index < count - 1:
                _skip_partitions(cursor, TopicProduceData, PartitionProduceData, version)
    except (CodecError, UnicodeDecodeError):
        return (), at
    return tuple(topics), end


def glance_fetch(data: bytes, at: int, size: int, version: int, max_partitions: int = UNLIMITED) -> FetchGlance | None:
    """The topics and the session of a Fetch request.

    None: it has not arrived completely, is malformed, or has too many partitions or topics.
    """
    if len(data) < at + size or version > _NEWEST_FETCH:
        return None
    found = FetchGlance.__new__(FetchGlance)
    found.named_to, found.elements = 0, (0, 0, 0)
    topics: list[str | bytes] = []
    by_id = has_field(FetchTopic, "topic_id", version)
    try:
        cursor = open_fetch(data, at, at + size, version, found)
        cursor.limit(max_partitions)
        for _ in range(cursor.topics(1, "topics")):
            topics.append(_topic(cursor, data, by_id))
            found.named_to = found.named_to or cursor.at
            found.elements = _skip_partitions(cursor, FetchTopic, FetchPartition, version)
    except (CodecError, UnicodeDecodeError):
        return None
    found.topics = tuple(topics)
    found.may_be_replica = _may_be_replica(cursor, data, at + size, version, found.max_bytes_at)
    return found


def _may_be_replica(cursor: Cursor, data: bytes, end: int, version: int, max_bytes_at: int) -> bool:
    """Whether the request whose topics end at the cursor can be one of a replica: consumers send no tagged fields."""
    if not has_field(FetchRequest, "replica_state", version):
        return data[max_bytes_at - _REPLICA_BEFORE] < _NEGATIVE
    if end - cursor.at > _MAX_AFTER_TOPICS:
        return True
    try:
        cursor.follow(plan(FetchRequest, version, after="topics", before=TAGS))
        return cursor.has_tags()
    except CodecError:
        return True


def check_fetch_partitions(frame: bytes, version: int, max_partitions: int) -> None:
    """Check the counts of a Fetch request, which may be malformed otherwise.

    Raises:
        TooManyError: it announces more than ``max_partitions`` partitions, or topics.
    """
    by_id = has_field(FetchTopic, "topic_id", version)
    try:
        cursor = open_fetch(frame, 0, len(frame), version, FetchHead.__new__(FetchHead))
        cursor.limit(max_partitions)
        for _ in range(cursor.topics(1, "topics")):
            cursor.skip(ID_SIZE if by_id else cursor.length(2, False, "a topic's name"))
            _skip_partitions(cursor, FetchTopic, FetchPartition, version)
    except TooManyError:
        raise
    except CodecError:
        return


def _skip_partitions(
    cursor: Cursor, topic: type[Struct], partition: type[Struct], version: int
) -> tuple[int, int, int]:
    """Skip the rest of a topic, which is its partitions, after its name. Their number, and where they begin and end."""
    skipped = plan(partition, version)
    count = cursor.partitions(1, "partitions")
    start = cursor.at
    for _ in range(count):
        cursor.follow(skipped)
    end = cursor.at
    cursor.follow(plan(topic, version, after=topic.declaration_.fields[-1].name))
    return count, start, end


def _topic(cursor: Cursor, data: bytes, by_id: bool) -> str | bytes:
    """The name or id of a topic. Raises UnicodeDecodeError if the name is not UTF-8."""
    if by_id:
        return cursor.topic(True)
    size = cursor.length(2, False, "a topic's name")
    cursor.skip(size)
    return data[cursor.at - size : cursor.at].decode()
