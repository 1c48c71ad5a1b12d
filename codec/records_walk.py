"""Steps over the records of a frame as its bytes pass, in any pieces, and reads the batches' headers, if wanted.

`RecordsWalk.skip` says how many bytes need not even be shown. A compressed message of an old format (magic 0 and 1)
counts as one record: its header does not say how many there are.

This file runs as it is and compiled (records_walk.pxd holds the C types).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka_sidecar.codec.batch_layout import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    COUNT_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_FROM,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    MIN_BATCH_BYTES,
    NEWEST_MAGIC,
    PRODUCER_ID_AT,
)
from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.message import Message, Struct, has_field, plan, plans

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor, cursor_at, prefetch, read_big_endian
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        Cursor,
        cursor_at,
        prefetch,
        read_big_endian,
    )

NO_TIMESTAMP = -1
MAX_CARRIED_BYTES = 1 << 20  # of a struct that is not complete yet
_HEAD, _TOPICS, _PARTITIONS, _BATCHES = range(4)
OLD_TIMESTAMP_AT = 18  # of a message of magic 1, after its attributes
# For C.
_HEADER_SIZE, _LENGTH_FROM, _MAGIC_AT, _MAGIC = BATCH_HEADER_SIZE, LENGTH_FROM, MAGIC_AT, NEWEST_MAGIC
_LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT, _COUNT_AT = LENGTH_AT, CRC_AT, ATTRIBUTES_AT, COUNT_AT
_DELTA_AT, _TIMESTAMP_AT, _PRODUCER_ID_AT = LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT
_OLD_TIMESTAMP_AT = OLD_TIMESTAMP_AT
_MIN_OLD, _MIN_TIMED = MIN_BATCH_BYTES[0], MIN_BATCH_BYTES[1]
_MAX_CARRIED = MAX_CARRIED_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """A message with topics, partitions and records, and what else a walk reads of it."""

    message: type[Message]
    topics: str  # the message's field
    topic: type[Struct]  # ends with partitions
    partition: type[Struct]  # begins with an index, has ``records``
    is_request: bool = False
    may_end_early: bool = True  # brokers cut records of responses off
    head_field: str = ""  # before the topics
    partition_field: str = ""  # before the records


@cache
def _layout(walked: Walked, version: int) -> tuple[Any, ...]:
    """Of one version: whether it is flexible, and names topics by id; the plans of `RecordsWalk`."""
    message, partition = walked.message, walked.partition
    index, partitions = partition.declaration_.fields[0].name, walked.topic.declaration_.fields[-1].name
    return (
        walked.is_request,
        walked.may_end_early,
        message.declaration_.is_flexible(version),
        has_field(walked.topic, "topic_id", version),
        *plans(message, version, walked.head_field, walked.topics)[:-1],
        *plans(partition, version, index, walked.partition_field, "records")[1:],
        plan(walked.topic, version, after=partitions),
    )


class RecordsWalk:
    """What the walks of all APIs share: head, topics, partitions, batches; not what is after the last topic."""

    __slots__ = (
        "_after_partitions", "_after_records", "_by_id", "_carry", "_crc", "_flexible", "_index", "_is_fed",
        "_is_request", "_key", "_max_carried", "_may_end_early", "_partitions_left", "_phase", "_reads_batches",
        "_records_left", "_to_head_field", "_to_partition_field", "_to_records", "_to_topics", "_topics_left",
        "has_failed", "is_done", "left", "rows", "skip",
    )  # fmt: skip

    def _open(self, walked: Walked, version: int) -> None:
        """Called once, at the beginning."""
        (
            self._is_request,
            self._may_end_early,
            self._flexible,
            self._by_id,
            self._to_head_field,
            self._to_topics,
            self._to_partition_field,
            self._to_records,
            self._after_records,
            self._after_partitions,
        ) = _layout(walked, version)
        self._reads_batches = True
        self._max_carried = _MAX_CARRIED
        self._key: str | bytes = ""
        self._crc = 0  # of the batch that is added; 0 in old formats
        self._index = 0
        self._restart()

    def ignore_batches(self, max_carried: int) -> None:
        """Step over the records without reading them.

        Args:
            max_carried: bytes of a struct that is not complete yet, instead of `MAX_CARRIED_BYTES`.
        """
        self._reads_batches = False
        self._max_carried = max_carried

    def _restart(self) -> None:
        """Begin to read another frame of the same version."""
        self._carry = b""  # a struct that is not complete yet
        self._is_fed = False  # with any bytes of the frame
        self._phase = _HEAD
        self._topics_left = self._partitions_left = self._records_left = 0
        self.rows: list[Any] = []
        self.skip = 0  # bytes that come next and need not be shown
        self.is_done = False
        self.has_failed = False  # nothing more of the frame is read
        self.left = 0  # bytes that were shown and come after what is read of a frame, once that is done

    def feed(self, data: bytes, start: int, end: int) -> None:
        """Read data[start:end], which follows what was shown and skipped before.

        Raises:
            CodecError: these bytes are no such frame; what was read before is in `rows`.
        """
        self._is_fed = True
        if self.skip:
            if self.skip > end - start:
                self.skip -= end - start
                return
            start += self.skip
            self.skip = 0
        if self._carry:
            data = self._carry + data[start:end]
            start, end = 0, len(data)
            self._carry = b""
        cursor = cursor_at(data, start, end, self._flexible)
        mark = start
        try:
            while not self.is_done and not self.skip:
                mark = cursor.at
                if self._records_left and mark == end:
                    return
                self._step(cursor, end)
            if self.is_done:
                self.left = end - cursor.at
        except TruncatedError:
            if self._phase == _BATCHES and self._records_left:
                mark = cursor.at  # of several batches, those before this one were read
            if end - mark > self._max_carried:
                raise CodecError(f"{end - mark} bytes without the end of a struct") from None
            self._carry = data[mark:end]

    def try_feed(self, data: bytes, start: int, end: int, last: bool) -> bool:
        """As `feed`; False, once: these bytes are no such frame, or it is the ``last`` piece, and the frame is not
        complete. What follows is ignored then."""
        if self.has_failed:
            return True
        try:
            self.feed(data, start, end)
        except CodecError:
            self.has_failed = True
            self.skip = 0
        else:
            self.has_failed = last and not self.is_done
        return not self.has_failed

    def _step(self, cursor: Cursor, end: int) -> None:
        """Read one struct. What it changes, it changes after the last byte was read."""
        if self._phase == _BATCHES:
            if self._records_left:
                self._records(cursor, end)
                return
            self._end_partition(cursor)
            self._flush()
            self._partitions_left -= 1
            self._phase = _PARTITIONS
        elif self._phase == _PARTITIONS:
            if self._partitions_left:
                self._records_left = max(self._partition(cursor), 0)
                self._phase = _BATCHES
            else:
                cursor.follow(self._after_partitions)
                self._topics_left -= 1
                self._phase = _TOPICS
        elif self._phase == _TOPICS:
            if not self._topics_left:
                self.is_done = True
                return
            self._key = cursor.topic(self._by_id, self._key)
            self._partitions_left = cursor.length(4, False, "partitions")
            self._phase = _PARTITIONS
        else:
            self._topics_left = self._head(cursor)
            self._phase = _TOPICS

    def _records(self, cursor: Cursor, end: int) -> None:
        """Read the batches that are there; at least one byte is."""
        if not self._reads_batches:
            left, self._records_left = self._records_left, 0
            self._pass(cursor, left, end)
        while self._records_left and not self.skip and cursor.at < end:
            self._batch(cursor, end)

    def _batch(self, cursor: Cursor, end: int) -> None:
        """Read the header of a batch, or of a message of an old format, and step over what follows."""
        left, data, at = self._records_left, cursor.data, cursor.at
        if end - at < _HEADER_SIZE and end - at < left:
            raise TruncatedError("a batch's header is incomplete")
        if left <= _MAGIC_AT:
            self._end_early(cursor, end)
            return
        size = _LENGTH_FROM + read_big_endian(data, at + _LENGTH_AT, 4)
        magic = read_big_endian(data, at + _MAGIC_AT, 1)
        if magic < 0 or magic > _MAGIC:
            raise CodecError(f"unknown magic {magic} of a record batch")
        if size < (_HEADER_SIZE if magic == _MAGIC else _MIN_OLD if magic == 0 else _MIN_TIMED):
            raise CodecError(f"a batch of magic {magic} has {size} bytes")
        if size > left:
            self._end_early(cursor, end)
            return
        if size < end - at - _HEADER_SIZE:
            prefetch(data, at + size, _HEADER_SIZE)  # the next header, while this one is counted
        if magic == _MAGIC:
            self._crc = read_big_endian(data, at + _CRC_AT, 4)
            attributes = read_big_endian(data, at + _ATTRIBUTES_AT, 2)
            delta = read_big_endian(data, at + _DELTA_AT, 4)
            timestamp = read_big_endian(data, at + _TIMESTAMP_AT, 8)
            producer_id = read_big_endian(data, at + _PRODUCER_ID_AT, 8)
            count = read_big_endian(data, at + _COUNT_AT, 4)
            if delta < 0 or count < 0:
                raise CodecError(f"a batch of {count} records up to offset {delta}")
        else:
            self._crc = 0
            attributes, delta, producer_id, count = 0, 0, -1, 1
            timestamp = read_big_endian(data, at + _OLD_TIMESTAMP_AT, 8) if magic else NO_TIMESTAMP
        self._add(read_big_endian(data, at, 8), delta, count, size, timestamp, attributes, producer_id)
        self._records_left = left - size
        if size <= end - at:
            cursor.at = at + size
        else:
            self._pass(cursor, size, end)

    def take_rows(self) -> list[Any]:
        """The rows, of which this object keeps none."""
        rows, self.rows = self.rows, []
        return rows

    def topic(self) -> str | bytes:
        """The topic that was read last."""
        return self._key

    def _end_early(self, cursor: Cursor, end: int) -> None:
        """A broker truncates a Fetch response at the requested size: clients do not read the last batch then."""
        if not self._may_end_early:
            raise CodecError("a batch is incomplete")
        left, self._records_left = self._records_left, 0
        self._pass(cursor, left, end)

    def _pass(self, cursor: Cursor, size: int, end: int) -> None:
        here = min(size, end - cursor.at)
        cursor.skip(here)
        self.skip = size - here

    def _head(self, cursor: Cursor) -> int:
        """Read up to the topics; how many there are."""
        if self._is_request:
            cursor.skip_request_header(self._flexible)
        else:
            cursor.skip_response_header()
        if self._to_head_field is not None:
            cursor.follow(self._to_head_field)
            self._read_head(cursor)
        cursor.follow(self._to_topics)
        return cursor.length(4, False, "topics")

    def _partition(self, cursor: Cursor) -> int:
        """Read a partition up to its records; how many bytes these have."""
        index = cursor.integer(4)
        if self._to_partition_field is not None:
            cursor.follow(self._to_partition_field)
            self._read_partition(cursor)
        cursor.follow(self._to_records)
        size = cursor.length(4, True, "records")
        self._begin_records(index, size)
        return size

    def _read_head(self, cursor: Cursor) -> None:
        """Read `Walked.head_field`."""

    def _read_partition(self, cursor: Cursor) -> None:
        """Read `Walked.partition_field`."""

    def _begin_records(self, index: int, size: int) -> None:
        """A partition was read up to its records."""
        self._index = index

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        raise NotImplementedError

    def _end_partition(self, cursor: Cursor) -> None:
        """Read what follows the records of a partition."""
        cursor.follow(self._after_records)

    def _flush(self) -> None:
        """A partition ends."""
