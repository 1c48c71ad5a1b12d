"""Finds the positions of the parts of a Produce request and a Fetch response, without the objects of a decoded message.

Accepts and rejects the same bytes as `decode`. All positions count from the start of ``data``. The results keep no
reference to ``data``. Edits are made with `envelope.splice`.

This file runs as it is and compiled (scan.pxd holds the C types).
"""

from __future__ import annotations

from functools import cache

from kafka_sidecar.codec.message import (
    TAGS,
    FieldReader,
    Message,
    Struct,
    field_plan,
    field_reader,
    has_field,
    plan,
    plans,
)
from kafka_sidecar.codec.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
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

_MIN_BYTES = 1  # of a topic, and of a partition: enough to refuse counts that cannot be


class Layout:
    """A version of a Produce request or a Fetch response: the plans between what is read of it."""

    __slots__ = (
        "aborted", "after_partitions", "after_records", "by_id", "flexible", "to_aborted", "to_acks", "to_records",
        "to_topics", "to_transactional_id", "version",
    )  # fmt: skip

    version: int
    flexible: bool
    by_id: bool  # topics are named by id
    to_transactional_id: bytes | None  # None: there is none
    to_acks: bytes
    to_topics: bytes
    to_records: bytes
    to_aborted: bytes
    aborted: bytes
    after_records: bytes
    after_partitions: bytes


def _layout(message: type[Message], topic: type[Struct], version: int) -> Layout:
    message.declaration_.check(version)
    layout = Layout.__new__(Layout)
    layout.version = version
    layout.flexible = message.declaration_.is_flexible(version)
    layout.by_id = has_field(topic, "topic_id", version)
    layout.after_partitions = plan(topic, version, after=topic.declaration_.fields[-1].name)
    return layout


@cache
def _produce_layout(version: int) -> Layout:
    layout = _layout(ProduceRequest, TopicProduceData, version)
    head = plans(ProduceRequest, version, "transactional_id", "acks", "topic_data")
    layout.to_transactional_id, layout.to_acks, layout.to_topics, _ = head
    _, layout.to_records, layout.after_records = plans(PartitionProduceData, version, "index", "records")
    return layout


@cache
def _fetch_layout(version: int) -> Layout:
    layout = _layout(FetchResponse, FetchableTopicResponse, version)
    layout.to_topics = plan(FetchResponse, version, before="responses")
    layout.to_aborted = plan(PartitionData, version, after="high_watermark", before="aborted_transactions")
    layout.aborted = field_plan(PartitionData, version, "aborted_transactions")
    layout.to_records = plan(PartitionData, version, after="aborted_transactions", before="records")
    layout.after_records = plan(PartitionData, version, after="records", before=TAGS)
    return layout


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
    layout = _produce_layout(version)
    cursor = cursor_at(data, at, len(data), layout.flexible)
    cursor.limit(max_partitions)
    spans = ProduceSpans.__new__(ProduceSpans)
    spans.transactional_id = None
    if layout.to_transactional_id is not None:
        cursor.follow(layout.to_transactional_id)
        spans.transactional_id = cursor.string(True, "transactional_id")
    cursor.follow(layout.to_acks)
    spans.acks = cursor.integer(2)
    cursor.follow(layout.to_topics)
    spans.topics_at = cursor.at
    count = cursor.topics(_MIN_BYTES, "topic_data")
    spans.topics = [_topic(cursor, layout) for _ in range(count)]
    cursor.skip_tags()
    spans.end = cursor.at
    return spans


def _topic(cursor: Cursor, layout: Layout) -> TopicSpan:
    topic = TopicSpan.__new__(TopicSpan)
    topic.start = cursor.at
    topic.key = cursor.topic(layout.by_id)
    topic.partitions_at = cursor.at
    count = cursor.partitions(_MIN_BYTES, "partition_data")
    topic.partitions = [_partition(cursor, layout) for _ in range(count)]
    cursor.follow(layout.after_partitions)
    topic.end = cursor.at
    return topic


def _partition(cursor: Cursor, layout: Layout) -> PartitionSpan:
    partition = PartitionSpan.__new__(PartitionSpan)
    partition.start = cursor.at
    partition.index = cursor.integer(4)
    cursor.follow(layout.to_records)
    partition.records_at = cursor.at
    size = cursor.length(4, True, "records")
    partition.is_null = size < 0
    partition.records_start = cursor.at
    cursor.skip(size)
    partition.records_end = cursor.at
    cursor.follow(layout.after_records)
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
    layout = _fetch_layout(version)
    cursor = cursor_at(data, at, len(data), layout.flexible)
    cursor.limit(max_partitions)
    spans = FetchSpans.__new__(FetchSpans)
    cursor.follow(layout.to_topics)
    spans.topics_at = cursor.at
    count = cursor.topics(_MIN_BYTES, "responses")
    spans.topics = [_fetch_topic(cursor, layout) for _ in range(count)]
    if cursor.has_tags():
        cursor.read_tags(_known_tags(FetchResponse, version))
    spans.end = cursor.at
    return spans


def _fetch_topic(cursor: Cursor, layout: Layout) -> FetchTopicSpan:
    topic = FetchTopicSpan.__new__(FetchTopicSpan)
    topic.start = cursor.at
    topic.key = cursor.topic(layout.by_id)
    topic.partitions_at = cursor.at
    count = cursor.partitions(_MIN_BYTES, "partitions")
    topic.partitions = [_fetch_partition(cursor, layout) for _ in range(count)]
    cursor.follow(layout.after_partitions)
    topic.end = cursor.at
    return topic


def _fetch_partition(cursor: Cursor, layout: Layout) -> FetchPartitionSpan:
    partition = FetchPartitionSpan.__new__(FetchPartitionSpan)
    partition.start = cursor.at
    partition.index = cursor.integer(4)
    partition.error_code = cursor.integer(2)
    partition.high_watermark = cursor.integer(8)
    cursor.follow(layout.to_aborted)
    partition.aborted_at = cursor.at
    cursor.follow(layout.aborted)
    partition.aborted_end = cursor.at
    cursor.follow(layout.to_records)
    partition.records_at = cursor.at
    size = cursor.length(4, True, "records")
    partition.is_null = size < 0
    partition.records_start = cursor.at
    cursor.skip(size)
    partition.records_end = cursor.at
    cursor.follow(layout.after_records)
    if cursor.has_tags():
        cursor.read_tags(_known_tags(PartitionData, layout.version))
    partition.end = cursor.at
    return partition


def aborted_transactions(data: bytes, partition: FetchPartitionSpan, version: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions of a partition; empty if they are null."""
    found, _ = field_reader(PartitionData, "aborted_transactions", version)(data, partition.aborted_at)
    return found or ()


@cache
def _known_tags(cls: type[FetchResponse] | type[PartitionData], version: int) -> dict[int, FieldReader]:
    fields = cls.declaration_.tagged(version)
    return {field.tag: field_reader(cls, field.name, version) for field in fields if field.tag is not None}
