"""How many records a Produce request sends, by batch headers alone, and what its response says of them.

This file runs as it is and compiled (produce_counts.pxd holds the C types).
"""

from __future__ import annotations

from typing import Any

from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafka_sidecar.codec.records.batch_header import (
    BATCH_HEADER_SIZE,
    COUNT_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_FROM,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    NEWEST_MAGIC,
    PRODUCER_ID_AT,
)

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import (
        Cursor,
        cursor_at,
        find_topic,
        find_uvarint,
        is_text,
        prefetch,
        read_big_endian,
    )
    from kafka_sidecar.codec.records_walk import RecordsWalk
    from kafka_sidecar.codec.response_tags import skip_errors
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        Cursor,
        cursor_at,
        find_topic,
        find_uvarint,
        is_text,
        prefetch,
        read_big_endian,
    )
    from cython.cimports.kafka_sidecar.codec.records_walk import RecordsWalk  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.response_tags import skip_errors  # type: ignore[no-redef]

NOT_ANSWERED = -2  # in place of an error code; -1 is Kafka's UNKNOWN_SERVER_ERROR
NO_OFFSET = NO_TIME = NOWHERE = -1
MAX_SCANNED = 64  # batches of a request that are looked for one by one
# For C.
_NOT_ANSWERED, _NO_OFFSET, _NO_TIME, _NOWHERE, _MAX_SCANNED = NOT_ANSWERED, NO_OFFSET, NO_TIME, NOWHERE, MAX_SCANNED
_ONE_BYTE = 128  # a varint below is one byte
_MIN_REQUEST, _PRODUCED_BYTES = 24, 33
_NEXT_BYTES = 9 + BATCH_HEADER_SIZE  # of the next partition, up to the end of its first batch's header
_HEADER_SIZE, _LENGTH_FROM, _MAGIC_AT, _MAGIC = BATCH_HEADER_SIZE, LENGTH_FROM, MAGIC_AT, NEWEST_MAGIC
_LENGTH_AT, _CRC_AT, _COUNT_AT, _DELTA_AT = LENGTH_AT, CRC_AT, COUNT_AT, LAST_OFFSET_DELTA_AT
_TIMESTAMP_AT, _PRODUCER_ID_AT = MAX_TIMESTAMP_AT, PRODUCER_ID_AT
_PRODUCE_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_PRODUCE_TRANSACTIONS = first_version(ProduceRequest, "transactional_id")
_PRODUCE_IDS = first_version(TopicProduceData, "topic_id")
_PRODUCED_FLEXIBLE = ProduceResponse.declaration_.first_flexible
_PRODUCED_TIME = first_version(PartitionProduceResponse, "log_append_time_ms")
_PRODUCED_START = first_version(PartitionProduceResponse, "log_start_offset")
_PRODUCED_ERRORS = first_version(PartitionProduceResponse, "record_errors")
_PRODUCED_IDS = first_version(TopicProduceResponse, "topic_id")


class Sent:
    """A batch of a Produce request, and what the response says of its partition."""

    __slots__ = ("append_time", "base_offset", "count", "counter", "crc", "error", "index", "key", "size", "timestamp")

    key: str | bytes  # the topic's name, or since v13 its id of 16 bytes
    index: int
    count: int
    size: int
    timestamp: int  # the greatest, ms since 1970
    crc: int  # 0 where a broker recognises the batch if it comes again: of an idempotent producer, and in old formats
    error: int
    base_offset: int
    append_time: int  # ms; only where the broker sets the time (LogAppendTime)
    counter: Any  # set by the caller; kept while the row is of the same partition


class ProduceWalk(RecordsWalk):
    """A Produce request from its length on; `rows` are `Sent`, one for each batch."""

    __slots__ = ("_filled", "acks")

    def __init__(self, version: int) -> None:
        self._open(version, version >= _PRODUCE_FLEXIBLE, version >= _PRODUCE_IDS, False)
        self.acks = 0
        self._filled = 0  # rows

    def restart(self) -> None:
        """Begin to read another request of the same version. The rows of the one before may be used again."""
        if self._is_fed:
            self._restart()
        self.is_done = False
        self.skip = 0

    def read(self, data: bytes, at: int, end: int) -> bool:
        """Read the request data[at:end], if it is the usual one; False: `feed` it, nothing of it was read.

        A usual request is whole, of a flexible version, without tagged fields, has fewer than 127 topics of fewer
        than 127 partitions, and batches of magic 2. It takes a third of the steps of `feed`, and uses the rows again.
        """
        if self._is_fed:
            return False
        self._filled = 0
        self.is_done = self._read_usual(data, at, end)
        if not self.is_done:
            self.rows = []
        elif len(self.rows) > self._filled:
            del self.rows[self._filled :]
        return self.is_done

    def _read_usual(self, data: bytes, at: int, end: int) -> bool:
        if not self._flexible or not 0 <= at <= end - _MIN_REQUEST or end > len(data):
            return False
        # length int32 | api key, version int16 | correlation id int32 | client id string | tags
        here = at + 14 + max(read_big_endian(data, at + 12, 2), 0)
        if here + 10 > end or data[here] or data[here + 1] >= _ONE_BYTE:
            return False
        here += 1 + max(data[here + 1], 1)  # the transactional id
        if here + 7 > end:
            return False
        acks, topics = read_big_endian(data, here, 2), data[here + 6]
        here += 7
        if not 0 < topics < _ONE_BYTE:
            return False
        for _ in range(topics - 1):
            here = self._read_topic(data, here, end)
            if here < 0:
                return False
        self.acks = acks
        return True

    def _read_topic(self, data: bytes, here: int, end: int) -> int:
        """Fill rows with the batches of the topic at data[here]; where it ends, or -1: it is not a usual one."""
        found = find_topic(data, here, end, self._by_id)
        if not found:
            return _NOWHERE
        here, size = found >> 7, found & 127
        if not is_text(self._key, data, here, size):
            text = data[here : here + size]
            self._key = text if self._by_id else text.decode("utf-8", "surrogateescape")
        here += size
        partitions = data[here]
        here += 1
        if not 0 < partitions < _ONE_BYTE:
            return _NOWHERE
        for _ in range(partitions - 1):
            here = self._read_partition(data, here, end)
            if here < 0:
                return _NOWHERE
        return here + 1 if here < end and not data[here] else _NOWHERE

    def _read_partition(self, data: bytes, here: int, end: int) -> int:
        """As `_read_topic`, of a partition."""
        found = find_uvarint(data, here + 4, end)
        if not found:
            return _NOWHERE
        self._index = read_big_endian(data, here, 4)
        here += 4 + (found & 7)
        stop = here + max((found >> 3) - 1, 0)
        if stop + _NEXT_BYTES < end:
            prefetch(data, stop, _NEXT_BYTES)
        if stop >= end or read_big_endian(data, stop, 1):
            return _NOWHERE
        while here < stop:
            if stop - here < _HEADER_SIZE or read_big_endian(data, here + _MAGIC_AT, 1) != _MAGIC:
                return _NOWHERE
            size = _LENGTH_FROM + read_big_endian(data, here + _LENGTH_AT, 4)
            count = read_big_endian(data, here + _COUNT_AT, 4)
            if size < _HEADER_SIZE or size > stop - here or count < 0 or read_big_endian(data, here + _DELTA_AT, 4) < 0:
                return _NOWHERE
            one = self._row()
            one.count, one.size = count, size
            one.timestamp = read_big_endian(data, here + _TIMESTAMP_AT, 8)
            one.crc = read_big_endian(data, here + _CRC_AT, 4)
            if read_big_endian(data, here + _PRODUCER_ID_AT, 1) >= 0:
                one.crc = 0
            here += size
        return here + 1

    def _row(self) -> Sent:
        """The next row, of the current partition."""
        if self._filled < len(self.rows):
            one: Sent = self.rows[self._filled]
            if one.index != self._index or (one.key is not self._key and one.key != self._key):
                one.key, one.index, one.counter = self._key, self._index, None
        else:
            one = Sent.__new__(Sent)
            one.key, one.index, one.counter = self._key, self._index, None
            self.rows.append(one)
        one.error, one.base_offset, one.append_time = _NOT_ANSWERED, _NO_OFFSET, _NO_TIME
        self._filled += 1
        return one

    def _head(self, cursor: Cursor) -> int:
        self.rows = []
        self._filled = 0
        cursor.skip(12)
        cursor.flexible = False
        cursor.skip(cursor.length(2, True, "client_id"))
        cursor.flexible = self._flexible
        cursor.skip_tags()
        if self._version >= _PRODUCE_TRANSACTIONS:
            cursor.skip(cursor.length(2, True, "transactional_id"))
        self.acks = cursor.integer(2)
        cursor.skip(4)
        return cursor.length(4, False, "topic_data")

    def _partition(self, cursor: Cursor) -> int:
        index = cursor.integer(4)
        size = cursor.length(4, True, "records")
        self._index = index
        return size

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        one = self._row()
        one.count, one.size, one.timestamp = count, size, timestamp
        one.crc = self._crc if producer_id < 0 else 0


def acknowledge(sent: list[Sent], data: bytes, at: int, end: int, version: int) -> None:
    """Note what the Produce response data[at:end], which begins with its length, says of the batches.

    Raises:
        CodecError: these bytes are no such response; some of the batches may have been noted.
    """
    flexible, by_id = version >= _PRODUCED_FLEXIBLE, version >= _PRODUCED_IDS
    if flexible and sent and _acknowledge_usual(sent, data, at, end, by_id):
        return
    has_time = version >= _PRODUCED_TIME
    size = 14 + (8 if has_time else 0) + (8 if version >= _PRODUCED_START else 0)
    cursor = cursor_at(data, at, end, flexible)
    places = _places(sent) if len(sent) > _MAX_SCANNED else None
    place = 0
    key = sent[0].key if sent else None
    cursor.skip(8)
    cursor.skip_tags()
    for _ in range(cursor.length(4, False, "responses")):
        key = cursor.topic(by_id, key)
        for _ in range(cursor.length(4, False, "partition_responses")):
            # index int32 | error_code int16 | base_offset int64 | log_append_time_ms int64 | log_start_offset int64
            here = cursor.take(size)
            index, error = read_big_endian(data, here, 4), read_big_endian(data, here + 4, 2)
            base = read_big_endian(data, here + 6, 8)
            time = read_big_endian(data, here + 14, 8) if has_time else _NO_TIME
            if version >= _PRODUCED_ERRORS:
                skip_errors(cursor)
            cursor.skip_tags()
            place = _place(sent, key, index, place) if places is None else places.get((key, index), _NOWHERE)
            place = _note(sent, place, error, base, time)
        cursor.skip_tags()


def _acknowledge_usual(sent: list[Sent], data: bytes, at: int, end: int, by_id: bool) -> bool:
    """As `acknowledge`, of a response in the order of the request, in which each partition has one batch (so brokers
    want it since v3), without record errors, messages and tagged fields.

    False: it is not such a one; some of the batches may have been noted.
    """
    here, place = at + 10, 0
    if at < 0 or end > len(data) or end < here or data[here - 2]:
        return False
    topics = data[here - 1]
    if not 0 < topics < _ONE_BYTE:
        return False
    for _ in range(topics - 1):
        here = _find_partitions(sent, place, data, here, end, by_id)
        if here < 0:
            return False
        partitions = data[here - 1] - 1
        place = _note_partitions(sent, place, data, here, partitions)
        here += partitions * _PRODUCED_BYTES
        if place < 0 or data[here]:
            return False
        here += 1
    return place == len(sent)


def _find_partitions(sent: list[Sent], place: int, data: bytes, here: int, end: int, by_id: bool) -> int:
    """Where the partitions of the topic at data[here] begin, which is that of the batch at ``place``; -1: it is not."""
    found = find_topic(data, here, end, by_id)
    if not found or place >= len(sent):
        return _NOWHERE
    here, size = found >> 7, found & 127
    one = sent[place]
    if not is_text(one.key, data, here, size):
        return _NOWHERE
    here += size + 1
    partitions = data[here - 1]
    is_whole = 0 < partitions < _ONE_BYTE and (partitions - 1) * _PRODUCED_BYTES < end - here
    return here if is_whole else _NOWHERE


def _note_partitions(sent: list[Sent], place: int, data: bytes, here: int, partitions: int) -> int:
    """Note what is said of partitions, which are all there and of one topic; where the next topic's are, or -1."""
    if partitions > len(sent) - place:
        return _NOWHERE
    one = sent[place]
    key = one.key
    for _ in range(partitions):
        one = sent[place]
        if one.index != read_big_endian(data, here, 4) or (one.key is not key and one.key != key):
            return _NOWHERE
        # error_code int16 | base_offset int64 | log_append_time_ms int64 | log_start_offset int64 |
        # record_errors: none | error_message: null | tags: none
        if read_big_endian(data, here + 30, 2) != 0x100 or read_big_endian(data, here + 32, 1):
            return _NOWHERE
        one.error, one.base_offset = read_big_endian(data, here + 4, 2), read_big_endian(data, here + 6, 8)
        one.append_time = read_big_endian(data, here + 14, 8)
        place += 1
        here += _PRODUCED_BYTES
    return place


def _places(sent: list[Sent]) -> dict[tuple[str | bytes, int], int]:
    """Where the first batch of each partition is."""
    found: dict[tuple[str | bytes, int], int] = {}
    for place, one in enumerate(sent):
        found.setdefault((one.key, one.index), place)
    return found


def _place(sent: list[Sent], key: str | bytes, index: int, place: int) -> int:
    """Where the first batch of a partition is. Responses have nearly the order of the request: look from ``place``."""
    size = len(sent)
    for _ in range(size):
        if place >= size:
            place = 0
        one = sent[place]
        if one.index == index and (one.key is key or one.key == key):
            return place
        place += 1
    return _NOWHERE


def _note(sent: list[Sent], place: int, error: int, base: int, time: int) -> int:
    """Note it of the batches of one partition, which follow each other; where the next partition's are."""
    if place < 0:
        return 0
    first = sent[place]
    while place < len(sent):
        one = sent[place]
        if one.index != first.index or (one.key is not first.key and one.key != first.key):
            break
        one.error, one.base_offset, one.append_time = error, base, time
        if base >= 0:
            base += one.count
        place += 1
    return place
