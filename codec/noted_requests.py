"""Usual Produce requests of one connection, noted in few bytes.

A usual request is whole, of a flexible version, without tagged fields, has fewer than 127 topics of fewer than 127
partitions, and batches of magic 2. All others: `ProduceWalk`.

This file runs as it is and compiled (noted_requests.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.batch_layout import (
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
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import find_topic, find_uvarint, is_text, prefetch, read_big_endian
    from kafka_sidecar.codec.longs import Longs
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        find_topic,
        find_uvarint,
        is_text,
        prefetch,
        read_big_endian,
    )
    from cython.cimports.kafka_sidecar.codec.longs import Longs  # type: ignore[no-redef]

MAX_KEYS = 64  # topics whose batches are noted at the same time
MAX_KEPT = 1 << 14  # integers that stay allocated while nothing is noted
HEAD = 2  # integers of a request: batches | time of the request, then from it to the response
ROW = 8  # of a batch: topic | partition | records | bytes | timestamp | CRC | base offset | the broker's time
# For C.
_MAX_KEYS, _MAX_KEPT, _HEAD, _ROW, _ONE_BYTE, _NOWHERE, _MIN_REQUEST = MAX_KEYS, MAX_KEPT, HEAD, ROW, 128, -1, 24
_NEXT_BYTES = 9 + BATCH_HEADER_SIZE  # of the next partition, up to the end of its first batch's header
_NOT_ANSWERED = NOT_ANSWERED
_HEADER_SIZE, _LENGTH_FROM, _MAGIC_AT, _MAGIC = BATCH_HEADER_SIZE, LENGTH_FROM, MAGIC_AT, NEWEST_MAGIC
_LENGTH_AT, _CRC_AT, _COUNT_AT, _DELTA_AT = LENGTH_AT, CRC_AT, COUNT_AT, LAST_OFFSET_DELTA_AT
_TIMESTAMP_AT, _PRODUCER_ID_AT = MAX_TIMESTAMP_AT, PRODUCER_ID_AT
_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_IDS = first_version(TopicProduceData, "topic_id")


class NotedRequests:
    """Requests of one version, in the order in which they came."""

    __slots__ = ("_by_id", "_end", "_integers", "_key_at", "_keys", "is_flexible", "open")

    def __init__(self, version: int) -> None:
        self.is_flexible = version >= _FLEXIBLE  # otherwise no request is a usual one
        self._by_id = version >= _IDS
        self._integers = Longs()
        self._end = 0  # where the next request will be
        self._keys: list[str | bytes] = []  # topics
        self._key_at = 0  # of the topic that was named last
        self.open = 0  # requests without a response

    def ask(self, data: bytes, at: int, end: int, now_us: int) -> bool:
        """Note the request data[at:end]; False: it is not a usual one, or of too many topics, and not noted."""
        start, is_usual = self._end, False
        if not start and len(self._keys) >= _MAX_KEYS:
            self._keys, self._key_at = [], 0
        try:
            self._reserve(_HEAD)
            is_usual = self._read(data, at, end)
        finally:
            if not is_usual:
                self._end = start
                self._shrink()
        if is_usual:
            self._integers._values[start] = (self._end - start) // _ROW
            self._integers._values[start + 1] = now_us
            self.open += 1
        return is_usual

    def is_long(self) -> bool:
        """Whether so much is noted that it should be counted."""
        return self._end > _MAX_KEPT

    def _shrink(self) -> None:
        if not self._end and self._integers.size > _MAX_KEPT:
            self._integers = Longs()

    def _reserve(self, size: int) -> int:
        """Where the next integers are; there is room for ``size``."""
        place = self._end
        if place + size > self._integers.size:
            self._integers._reach(place + size)
        self._end = place + size
        return place

    def _read(self, data: bytes, at: int, end: int) -> bool:
        if not self.is_flexible or not 0 <= at <= end - _MIN_REQUEST or end > len(data):
            return False
        # length int32 | api key, version int16 | correlation id int32 | client id string | tags
        here = at + 14 + max(read_big_endian(data, at + 12, 2), 0)
        if here + 10 > end or data[here] or data[here + 1] >= _ONE_BYTE:
            return False
        here += 1 + max(data[here + 1], 1)  # the transactional id
        if here + 7 > end:
            return False
        topics = data[here + 6]  # after acks int16, timeout int32
        here += 7
        if not 0 < topics < _ONE_BYTE:
            return False
        for _ in range(topics - 1):
            here = self._read_topic(data, here, end)
            if here < 0:
                return False
        return True

    def _read_topic(self, data: bytes, here: int, end: int) -> int:
        """Note the batches of the topic at data[here]; where it ends, or -1: it is not a usual one."""
        found = find_topic(data, here, end, self._by_id)
        if not found:
            return _NOWHERE
        here, size = found >> 7, found & 127
        if not self._find_key(data, here, size):
            return _NOWHERE
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

    def _find_key(self, data: bytes, here: int, size: int) -> bool:
        """Set the place of the topic data[here:here + size] in the keys; False: there are too many of them.

        Requests that follow each other have nearly the same topics: look from that of the last one.
        """
        keys = self._keys
        for _ in range(len(keys)):
            if self._key_at >= len(keys):
                self._key_at = 0
            if is_text(keys[self._key_at], data, here, size):
                return True
            self._key_at += 1
        if len(keys) >= _MAX_KEYS:
            return False
        text = data[here : here + size]
        self._key_at = len(keys)
        keys.append(text if self._by_id else text.decode("utf-8", "surrogateescape"))
        return True

    def _read_partition(self, data: bytes, here: int, end: int) -> int:
        """As `_read_topic`, of a partition."""
        found = find_uvarint(data, here + 4, end)
        if not found:
            return _NOWHERE
        index = read_big_endian(data, here, 4)
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
            place = self._reserve(_ROW)
            values = self._integers._values
            values[place], values[place + 1], values[place + 2], values[place + 3] = self._key_at, index, count, size
            values[place + 4] = read_big_endian(data, here + _TIMESTAMP_AT, 8)
            is_idempotent = read_big_endian(data, here + _PRODUCER_ID_AT, 1) >= 0
            values[place + 6] = _NOT_ANSWERED
            values[place + 5] = 0 if is_idempotent else read_big_endian(data, here + _CRC_AT, 4)
            here += size
        return here + 1
