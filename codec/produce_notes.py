"""Usual Produce requests of one connection and their responses, noted in few bytes to be counted some at a time.

Between two requests a CPU's caches are filled by other programs, so what is touched for each request costs more than
what is computed. Noting touches one array of integers; the objects that count are touched once for many requests.

This file runs as it is and compiled (produce_notes.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.noted_requests import HEAD, ROW
from kafka_sidecar.codec.produce_counts import MAX_SCANNED, NOT_ANSWERED

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import find_topic, is_text, read_big_endian
    from kafka_sidecar.codec.longs import Longs
    from kafka_sidecar.codec.noted_requests import NotedRequests
    from kafka_sidecar.codec.produce_counts import Sent, new_sent
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        find_topic,
        is_text,
        read_big_endian,
    )
    from cython.cimports.kafka_sidecar.codec.longs import Longs  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.noted_requests import NotedRequests  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.produce_counts import Sent, new_sent  # type: ignore[no-redef]

MAX_RESPONSE = 1 << 16  # bytes; a longer response is not kept until it is counted
# For C.
_HEAD, _ROW, _ONE_BYTE, _NOWHERE, _PRODUCED_BYTES = HEAD, ROW, 128, -1, 33
_NOT_ANSWERED, _MAX_SCANNED, _MAX_RESPONSE = NOT_ANSWERED, MAX_SCANNED, MAX_RESPONSE


class ProduceNotes(NotedRequests):
    """Requests of one version, the oldest first; those that have their response come before those that wait for it.

    They are read one after the other: `next_answered` or `next_open` moves to a request, the others speak of it.
    """

    __slots__ = (
        "_first", "_next", "_next_response", "_responses", "_row", "_rows_end", "answered", "base_offset", "count",
        "elapsed_us", "index", "key", "response", "size", "timestamp",
    )  # fmt: skip

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self._first = self._next = 0  # where the oldest request is, and the oldest open one
        self._responses: list[bytes] = []
        self._next_response = 0
        self.answered = 0  # requests with a response
        # The current request. An open one has no response, and in place of what it took the time when it came.
        self._row = self._rows_end = 0
        self.response, self.elapsed_us = b"", 0
        # The current batch.
        self.key: str | bytes = ""
        self.index = self.count = self.size = self.timestamp = self.base_offset = 0

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

    def next_answered(self) -> bool:
        """Move to the oldest request that was answered; False: there is none. It is forgotten with the next move."""
        if not self.answered:
            return False
        self.answered -= 1
        self.response = self._responses[self._next_response]
        self._next_response += 1
        if not self.answered:
            self._responses, self._next_response = [], 0
        self._move()
        return True

    def next_open(self) -> None:
        """Move to the oldest open request; all that were answered have been read. It is forgotten with the next move.

        Raises:
            IndexError: no request is open.
        """
        if not self.open:
            raise IndexError("no request is open")
        self.open -= 1
        self._move()
        self._next = self._first

    def _move(self) -> None:
        values, place = self._integers._values, self._first
        self.elapsed_us = values[place + 1]
        self._row = place + _HEAD
        self._first = self._rows_end = self._row + _ROW * values[place]

    def next_batch(self) -> bool:
        """Move to the next batch of a request that `fits` its response; False: there is none."""
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
        """All batches of the current request."""
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

    def release(self) -> None:
        """Free what is kept for further requests, if nothing is noted."""
        if not self._end:
            self._integers, self.response = Longs(), b""

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
