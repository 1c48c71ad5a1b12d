"""Usual Produce requests of one connection and their responses, noted in few bytes to be counted some at a time.

Between two requests a CPU's caches are filled by other programs, so what is touched for each request costs more than
what is computed. Noting touches one array of integers; the objects that count are touched once for many requests.

A usual request is whole, of a flexible version, without tagged fields, has fewer than 127 topics of fewer than 127
partitions, and batches of magic 2. All others: `ProduceWalk`.

This file runs as it is and compiled (produce_notes.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.produce_counts import MAX_SCANNED, NOT_ANSWERED
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
    from kafka_sidecar.codec.cursor import find_topic, find_uvarint, is_text, prefetch, read_big_endian
    from kafka_sidecar.codec.longs import Longs
    from kafka_sidecar.codec.produce_counts import Sent, new_sent
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        find_topic,
        find_uvarint,
        is_text,
        prefetch,
        read_big_endian,
    )
    from cython.cimports.kafka_sidecar.codec.longs import Longs  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.produce_counts import Sent, new_sent  # type: ignore[no-redef]

MAX_KEYS = 64  # topics whose batches are noted at the same time
MAX_RESPONSE = 1 << 16  # bytes; a longer response is not kept until it is counted
MAX_KEPT = 1 << 14  # integers that stay allocated while nothing is noted
HEAD = 2  # integers of a request: batches | time of the request, then from it to the response
ROW = 8  # of a batch: topic | partition | records | bytes | timestamp | CRC | base offset | the broker's time
# For C.
_MAX_KEYS, _MAX_KEPT, _HEAD, _ROW, _ONE_BYTE, _NOWHERE, _MIN_REQUEST = MAX_KEYS, MAX_KEPT, HEAD, ROW, 128, -1, 24
_NEXT_BYTES = 9 + BATCH_HEADER_SIZE  # of the next partition, up to the end of its first batch's header
_PRODUCED_BYTES, _NOT_ANSWERED, _MAX_SCANNED, _MAX_RESPONSE = 33, NOT_ANSWERED, MAX_SCANNED, MAX_RESPONSE
_HEADER_SIZE, _LENGTH_FROM, _MAGIC_AT, _MAGIC = BATCH_HEADER_SIZE, LENGTH_FROM, MAGIC_AT, NEWEST_MAGIC
_LENGTH_AT, _CRC_AT, _COUNT_AT, _DELTA_AT = LENGTH_AT, CRC_AT, COUNT_AT, LAST_OFFSET_DELTA_AT
_TIMESTAMP_AT, _PRODUCER_ID_AT = MAX_TIMESTAMP_AT, PRODUCER_ID_AT
_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_IDS = first_version(TopicProduceData, "topic_id")


class ProduceNotes:
    """Requests of one version, the oldest first; those that have their response come before those that wait for it."""

    __slots__ = (
        "_by_id", "_end", "_first", "_integers", "_key_at", "_keys", "_next", "_next_response", "_responses", "_row",
        "_rows_end", "answered", "base_offset", "count", "elapsed_us", "index", "is_flexible", "key", "open",
        "response", "size", "timestamp",
    )  # fmt: skip

    def __init__(self, version: int) -> None:
        self.is_flexible = version >= _FLEXIBLE  # otherwise no request is a usual one
        self._by_id = version >= _IDS
        self._integers = Longs()
        self._first = self._next = self._end = 0  # where the oldest request is, the oldest open one, the next one
        self._row = self._rows_end = 0  # of the request to which was gone
        self._responses: list[bytes] = []
        self._next_response = 0
        self._keys: list[str | bytes] = []  # topics
        self._key_at = 0  # of the topic that was named last
        self.open = self.answered = 0  # requests
        # Of the request to which was gone; without a response, the time when it came.
        self.response, self.elapsed_us = b"", 0
        # Of the batch that was read:
        self.key: str | bytes = ""
        self.index = self.count = self.size = self.timestamp = self.base_offset = 0

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

    def answer(self, data: bytes, at: int, end: int, now_us: int) -> bool:
        """Note the response data[at:end] to the oldest open request; False: it is not a usual one, and not noted.

        A usual response has no errors, no messages and no tagged fields. Whether it fits the request is seen later.
        """
        if not self.open or end - at > _MAX_RESPONSE or not _is_success(data, at, end, self._by_id):
            return False
        place, values = self._next, self._integers._values
        values[place + 1] = now_us - values[place + 1]
        self._next = place + _HEAD + _ROW * values[place]
        self._responses.append(data if at == 0 and end == len(data) else data[at:end])
        self.open -= 1
        self.answered += 1
        return True

    def next_request(self) -> bool:
        """Go to the oldest request that was answered, and forget it after that; False: there is none."""
        if not self.answered:
            return False
        self.answered -= 1
        self.response = self._responses[self._next_response]
        self._next_response += 1
        if not self.answered:
            self._responses, self._next_response = [], 0
        self._step()
        return True

    def take(self) -> None:
        """Go to the oldest open request, and forget it after that. All answered ones have been read."""
        if not self.open:
            raise IndexError("no request is open")
        self.open -= 1
        self._step()
        self._next = self._first

    def _step(self) -> None:
        values, place = self._integers._values, self._first
        self.elapsed_us = values[place + 1]
        self._row = place + _HEAD
        self._first = self._rows_end = self._row + _ROW * values[place]

    def next_batch(self) -> bool:
        """Read the next batch of a request that `fits` its response; False: there is none."""
        row, values = self._row, self._integers._values
        if row >= self._rows_end:
            return False
        self._row = row + _ROW
        self.key, self.index, self.count = self._keys[values[row]], values[row + 1], values[row + 2]
        self.size, self.base_offset = values[row + 3], values[row + 6]
        # The broker's time (LogAppendTime) is that which consumers see.
        self.timestamp = values[row + 4] if values[row + 7] < 0 else values[row + 7]
        return True

    def batches(self) -> list[Sent]:
        """All batches of the request."""
        return self._batches(self._row, self._rows_end)

    def open_batches(self) -> list[Sent]:
        """The batches of all open requests."""
        at, values, sent = self._next, self._integers._values, []
        while at < self._end:
            stop = at + _HEAD + _ROW * values[at]
            sent += self._batches(at + _HEAD, stop)
            at = stop
        return sent

    def _batches(self, row: int, stop: int) -> list[Sent]:
        values, sent = self._integers._values, []
        while row < stop:
            one = new_sent(self._keys[values[row]], values[row + 1])
            one.count, one.size, one.timestamp, one.crc = (
                values[row + 2], values[row + 3], values[row + 4], values[row + 5],
            )  # fmt: skip
            sent.append(one)
            row += _ROW
        return sent

    def compact(self) -> None:
        """Use the place of requests that were forgotten: once it is half of all, so that few are moved often."""
        values, first = self._integers._values, self._first
        if first and 2 * first >= self._end:
            for at in range(self._end - first):
                values[at] = values[first + at]
            self._first, self._next, self._end = 0, self._next - first, self._end - first
            self._row = self._rows_end = 0
        self._shrink()

    def is_long(self) -> bool:
        """Whether so much is noted that it should be counted."""
        return self._end > _MAX_KEPT

    def _shrink(self) -> None:
        if not self._end and self._integers.size > _MAX_KEPT:
            self._integers = Longs()

    def release(self) -> None:
        """Free what is kept for further requests, if nothing is noted."""
        if not self._end:
            self._integers, self.response = Longs(), b""

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

    def fits(self) -> bool:
        """Whether the response has each partition of the request, and each has one batch: brokers want it since v3.

        Then `next_batch` says where they are stored.
        """
        data, begin, stop = self.response, self._row, self._rows_end
        here, row, left = 10, begin, (stop - begin) // _ROW
        values = self._integers._values
        for _ in range(data[here - 1] - 1):
            found = find_topic(data, here, len(data), self._by_id)
            here, size = found >> 7, found & 127
            key_at = self._find_key_of(data, here, size, values[row if row < stop else begin]) if left else _NOWHERE
            here += size + 1
            partitions = data[here - 1] - 1
            if key_at < 0 or partitions > left:
                return False
            left -= partitions
            for _ in range(partitions):
                row = self._find_row(row, begin, stop, key_at, read_big_endian(data, here, 4))
                if row < 0:
                    return False
                values[row + 6], values[row + 7] = (
                    read_big_endian(data, here + 6, 8), read_big_endian(data, here + 14, 8),
                )  # fmt: skip
                if values[row + 6] <= _NOT_ANSWERED:
                    return False
                row += _ROW
                here += _PRODUCED_BYTES
            here += 1
        return left == 0

    def _find_key_of(self, data: bytes, here: int, size: int, expected: int) -> int:
        """Where the topic data[here:here + size] is in the keys; -1: it is of no request."""
        if is_text(self._keys[expected], data, here, size):
            return expected
        for place in range(len(self._keys)):
            if is_text(self._keys[place], data, here, size):
                return place
        return _NOWHERE

    def _find_row(self, row: int, begin: int, stop: int, key_at: int, index: int) -> int:
        """The row of a partition that has no response yet, most likely the one at ``row``; -1: there is none near it.

        Brokers have an order of their own, which is nearly the same in all responses.
        """
        values = self._integers._values
        for _ in range(min((stop - begin) // _ROW, _MAX_SCANNED)):
            if row >= stop:
                row = begin
            if values[row + 1] == index and values[row] == key_at and values[row + 6] == _NOT_ANSWERED:
                return row
            row += _ROW
        return _NOWHERE


def _is_success(data: bytes, at: int, end: int, by_id: bool) -> bool:
    here = at + 10
    if at < 0 or end > len(data) or end < here or data[here - 2]:
        return False
    topics = data[here - 1]
    if not 0 < topics < _ONE_BYTE:
        return False
    for _ in range(topics - 1):
        found = find_topic(data, here, end, by_id)
        if not found:
            return False
        here = (found >> 7) + (found & 127) + 1
        partitions = data[here - 1]
        if not 0 < partitions < _ONE_BYTE or (partitions - 1) * _PRODUCED_BYTES >= end - here:
            return False
        for _ in range(partitions - 1):
            # index int32 | error_code int16 | base_offset int64 | log_append_time_ms int64 | log_start_offset int64 |
            # record_errors: none | error_message: null | tags: none
            if read_big_endian(data, here + 4, 2) or read_big_endian(data, here + 30, 2) != 0x100 or data[here + 32]:
                return False
            here += _PRODUCED_BYTES
        if data[here]:
            return False
        here += 1
    return True
