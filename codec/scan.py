"""Finds the positions of the parts of a Produce request and a Fetch response, without the objects of a decoded message.

Accepts and rejects the same bytes as `decode`. All positions count from the start of ``data``. The results keep no
reference to ``data``. Edits are made with `envelope.splice`.

This file runs as it is and compiled (scan.pxd holds the C types).
"""

from __future__ import annotations

from functools import cache

from kafka_sidecar.codec.message import FieldReader, field_reader, first_version
from kafka_sidecar.codec.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.wire import UNLIMITED

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

_PRODUCE_MIN, _PRODUCE_MAX = 0, 13
_PRODUCE_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_PRODUCE_TRANSACTIONS = first_version(ProduceRequest, "transactional_id")
_PRODUCE_IDS = first_version(TopicProduceData, "topic_id")

_FETCH_MIN, _FETCH_MAX = 4, 18
_FETCH_FLEXIBLE = FetchResponse.declaration_.first_flexible
_FETCH_START_OFFSET = first_version(PartitionData, "log_start_offset")
_FETCH_SESSIONS = first_version(FetchResponse, "session_id")
_FETCH_REPLICAS = first_version(PartitionData, "preferred_read_replica")
_FETCH_IDS = first_version(FetchableTopicResponse, "topic_id")


class PartitionSpan:
    """One partition of a Produce request: a whole entry from ``start`` to ``end``.

    index int32 | records (length, bytes) | [tags]
    """

    __slots__ = ("end", "index", "is_null", "records_at", "records_end", "records_start", "start")

    index: int
    start: int
    end: int
    records_at: int  # of the length before the records
    records_start: int
    records_end: int
    is_null: bool  # null differs from zero bytes on the wire


class TopicSpan:
    """One topic: a whole entry from ``start`` to ``end``.

    name string, or id of 16 bytes | partitions (count, entries) | [tags]
    """

    __slots__ = ("end", "key", "partitions", "partitions_at", "start")

    key: str | bytes  # the name, or since v13 the id
    start: int
    end: int
    partitions_at: int  # of their count
    partitions: list[PartitionSpan]


class ProduceSpans:
    """A Produce request's body, which ends at ``end``."""

    __slots__ = ("acks", "end", "topics", "topics_at", "transactional_id")

    transactional_id: str | None
    acks: int
    topics_at: int  # of their count
    topics: list[TopicSpan]
    end: int


class FetchPartitionSpan:
    """One partition of a Fetch response: a whole entry from ``start`` to ``end``.

    index int32 | error code int16 | high watermark int64 | last stable offset int64 | log start offset int64 (v5) |
    aborted transactions | preferred read replica int32 (v11) | records (length, bytes) | [tags]
    """

    __slots__ = (
        "aborted_at", "aborted_end", "end", "error_code", "high_watermark", "index", "is_null", "records_at",
        "records_end", "records_start", "start",
    )  # fmt: skip

    index: int
    error_code: int
    high_watermark: int
    start: int
    end: int
    aborted_at: int  # of their count; see `aborted_transactions`
    aborted_end: int
    records_at: int  # of the length before the records
    records_start: int
    records_end: int
    is_null: bool

    @property
    def error_code_at(self) -> int:
        """The position of its two bytes."""
        return self.start + 4

    @property
    def high_watermark_at(self) -> int:
        """The position of its eight bytes."""
        return self.start + 6


class FetchTopicSpan:
    """One topic: a whole entry from ``start`` to ``end``."""

    __slots__ = ("end", "key", "partitions", "partitions_at", "start")

    key: str | bytes  # the name, or since v13 the id
    start: int
    end: int
    partitions_at: int  # of their count
    partitions: list[FetchPartitionSpan]


class FetchSpans:
    """A Fetch response's body, which ends at ``end``."""

    __slots__ = ("end", "topics", "topics_at")

    topics_at: int  # of their count
    topics: list[FetchTopicSpan]
    end: int


def scan_produce(data: bytes, at: int, version: int, max_partitions: int = UNLIMITED) -> ProduceSpans:
    """The Produce request whose body begins at ``at``.

    Raises:
        TooManyError: it announces more than ``max_partitions`` partitions, or topics.
        CodecError: `decode` would raise one, too.
    """
    if not _PRODUCE_MIN <= version <= _PRODUCE_MAX:
        ProduceRequest.declaration_.check(version)
    cursor = cursor_at(data, at, len(data), version >= _PRODUCE_FLEXIBLE)
    cursor.limit(max_partitions)
    by_id = version >= _PRODUCE_IDS
    spans = ProduceSpans.__new__(ProduceSpans)
    spans.transactional_id = cursor.string(True, "transactional_id") if version >= _PRODUCE_TRANSACTIONS else None
    spans.acks = cursor.integer(2)
    cursor.skip(4)  # timeout_ms
    spans.topics_at = cursor.at
    count = cursor.topics(_min_topic_bytes(cursor.flexible, by_id), "topic_data")
    spans.topics = [_topic(cursor, by_id) for _ in range(count)]
    cursor.skip_tags()
    spans.end = cursor.at
    return spans


def _topic(cursor: Cursor, by_id: bool) -> TopicSpan:
    topic = TopicSpan.__new__(TopicSpan)
    topic.start = cursor.at
    topic.key = cursor.topic(by_id)
    topic.partitions_at = cursor.at
    count = cursor.partitions(6 if cursor.flexible else 8, "partition_data")
    topic.partitions = [_partition(cursor) for _ in range(count)]
    cursor.skip_tags()
    topic.end = cursor.at
    return topic


def _partition(cursor: Cursor) -> PartitionSpan:
    partition = PartitionSpan.__new__(PartitionSpan)
    partition.start = cursor.at
    partition.index = cursor.integer(4)
    partition.records_at = cursor.at
    size = cursor.length(4, True, "records")
    partition.is_null = size < 0
    partition.records_start = cursor.at
    cursor.skip(size)
    partition.records_end = cursor.at
    cursor.skip_tags()
    partition.end = cursor.at
    return partition


def find_duplicate(spans: ProduceSpans) -> tuple[str | bytes, int] | None:
    """A partition that the request names twice: the topic's name or id, and its index."""
    if len(spans.topics) == 1:
        indexes = [partition.index for partition in spans.topics[0].partitions]
        if len(indexes) == 1 or len(set(indexes)) == len(indexes):
            return None
    seen = set()
    for topic in spans.topics:
        for partition in topic.partitions:
            named = (topic.key, partition.index)
            if named in seen:
                return named
            seen.add(named)
    return None


def scan_fetch(data: bytes, at: int, version: int, max_partitions: int = UNLIMITED) -> FetchSpans:
    """The Fetch response whose body begins at ``at``.

    Raises:
        TooManyError: it announces more than ``max_partitions`` partitions, or topics.
        CodecError: `decode` would raise one, too.
    """
    if not _FETCH_MIN <= version <= _FETCH_MAX:
        FetchResponse.declaration_.check(version)
    cursor = cursor_at(data, at, len(data), version >= _FETCH_FLEXIBLE)
    cursor.limit(max_partitions)
    by_id = version >= _FETCH_IDS
    spans = FetchSpans.__new__(FetchSpans)
    cursor.skip(10 if version >= _FETCH_SESSIONS else 4)  # throttle_time_ms; error_code, session_id
    spans.topics_at = cursor.at
    count = cursor.topics(_min_topic_bytes(cursor.flexible, by_id), "responses")
    spans.topics = [_fetch_topic(cursor, version, by_id) for _ in range(count)]
    if cursor.has_tags():
        cursor.read_tags(_known_tags(FetchResponse, version))
    spans.end = cursor.at
    return spans


def _fetch_topic(cursor: Cursor, version: int, by_id: bool) -> FetchTopicSpan:
    topic = FetchTopicSpan.__new__(FetchTopicSpan)
    topic.start = cursor.at
    topic.key = cursor.topic(by_id)
    topic.partitions_at = cursor.at
    before = 30 if version >= _FETCH_START_OFFSET else 22
    between = 4 if version >= _FETCH_REPLICAS else 0
    count = cursor.partitions(before + between + (3 if cursor.flexible else 8), "partitions")
    topic.partitions = [_fetch_partition(cursor, version, before, between) for _ in range(count)]
    cursor.skip_tags()
    topic.end = cursor.at
    return topic


def _fetch_partition(cursor: Cursor, version: int, before: int, between: int) -> FetchPartitionSpan:
    """``before`` and ``between``: the bytes before the aborted transactions, and from there to the records."""
    partition = FetchPartitionSpan.__new__(FetchPartitionSpan)
    partition.start = cursor.at
    partition.index = cursor.integer(4)
    partition.error_code = cursor.integer(2)
    partition.high_watermark = cursor.integer(8)
    cursor.skip(before - 14)
    partition.aborted_at = cursor.at
    _skip_aborted(cursor)
    partition.aborted_end = cursor.at
    cursor.skip(between)
    partition.records_at = cursor.at
    size = cursor.length(4, True, "records")
    partition.is_null = size < 0
    partition.records_start = cursor.at
    cursor.skip(size)
    partition.records_end = cursor.at
    if cursor.has_tags():
        cursor.read_tags(_known_tags(PartitionData, version))
    partition.end = cursor.at
    return partition


def _skip_aborted(cursor: Cursor) -> None:
    count = cursor.length(4, True, "aborted_transactions")
    if cursor.flexible:
        for _ in range(count):
            cursor.skip(16)
            cursor.skip_tags()
    else:
        cursor.skip(16 * count)


def aborted_transactions(data: bytes, partition: FetchPartitionSpan, version: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions of a partition; empty if they are null."""
    found, _ = field_reader(PartitionData, "aborted_transactions", version)(data, partition.aborted_at)
    return found or ()


def _min_topic_bytes(flexible: bool, by_id: bool) -> int:
    """The size of a topic without partitions and with an empty name."""
    if by_id:
        return 18
    return 3 if flexible else 6


@cache
def _known_tags(cls: type[FetchResponse] | type[PartitionData], version: int) -> dict[int, FieldReader]:
    fields = cls.declaration_.tagged(version)
    return {field.tag: field_reader(cls, field.name, version) for field in fields if field.tag is not None}
