"""The records of one batch, and loops over them that check a whole batch in one call.

Every length in them is checked once, so that other code need not. This file runs as it is and compiled (records.pxd
holds the C types). The first byte of each varint is read inline: a call for each would double the time of the
uncompiled code.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

from kafka_sidecar.codec.checkpoint import COMPILED, ITERATED, checkpoint
from kafka_sidecar.codec.errors import CodecError, TruncatedError

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records.record import Record, find_missing_header, varlong
else:
    from cython.cimports.kafka_sidecar.codec.records.record import Record, find_missing_header, varlong  # type: ignore[no-redef]

_COMPILED, _ITERATED = COMPILED, ITERATED  # for C

# length: varint                of all that follows
# attributes: int8
# timestampDelta: varlong       from the batch's base timestamp
# offsetDelta: varint           from the batch's base offset
# keyLength: varint, key        -1: null
# valueLength: varint, value    -1: null
# headers: varint count, then
#   keyLength: varint, key      UTF-8
#   valueLength: varint, value  -1: null
#
# Varints are zigzag encoded: "raw" is the value before decoding, so an odd one is negative, and 1 is -1.
NULL = 1
MIN_RECORD_BYTES = 7  # seven fields of one byte


class Records:
    """The records of one batch, decompressed and checked.

    Raises:
        CodecError: a length in ``payload`` is invalid, or it has not exactly ``count`` records.
    """

    __slots__ = ("_append_time", "_base_timestamp", "_count", "_starts", "payload")

    def __init__(self, payload: bytes, count: int, base_timestamp: int = 0, append_time: int | None = None) -> None:
        check(payload, count)
        self.payload = payload
        self._count = count
        self._base_timestamp = base_timestamp
        self._append_time = append_time
        self._starts: array[int] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        at = self._cursor()
        for _ in range(self._count):
            at._advance()
            if at._index & _ITERATED == _ITERATED:
                checkpoint()
            yield at._copy()

    def __getitem__(self, index: int) -> Record:
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("record index out of range")
        if self._starts is None:
            self._starts = self._find_starts()
        record = self._cursor()
        record._index = index - 1
        record._end = self._starts[index]
        record._advance()
        return record

    def with_payload(self, payload: bytes, count: int = -1) -> Records:
        """The same batch's records after an edit, which may have dropped some; itself if nothing has changed."""
        if count < 0:
            count = self._count
        if payload is self.payload and count == self._count:
            return self
        return Records(payload, count, self._base_timestamp, self._append_time)

    def _rewritten(self, payload: bytes, count: int) -> Records:
        """These records as our own edits have written them: as they came from checked ones, they need no check."""
        records = Records.__new__(Records)
        records.payload = payload
        records._count = count
        records._base_timestamp = self._base_timestamp
        records._append_time = self._append_time
        records._starts = None
        return records

    def missing_header(self, name: bytes, max_results: int = sys.maxsize) -> list[int]:
        """The indexes of the records without a header of that name, at most ``max_results`` of them."""
        return find_missing_header(self.payload, self._count, name, max_results)

    def null_keys(self, max_results: int = sys.maxsize) -> list[int]:
        """The indexes of the records whose key is null."""
        found = []
        record = self._cursor()
        for index in range(self._count):
            record._advance()
            record._read()
            if record._key_size < 0:
                found.append(index)
                if len(found) >= max_results:
                    break
            if index & _COMPILED == _COMPILED:
                checkpoint()
        return found

    def larger_than(
        self, key: int = -1, value: int = -1, record: int = -1, max_results: int = sys.maxsize
    ) -> list[tuple[int, str]]:
        """The indexes of the records that exceed a limit, each with the first limit that it exceeds: ``"key"``,
        ``"value"`` or ``"record"`` (key, value and headers, encoded). Limits are in bytes; -1: none."""
        found = []
        one = self._cursor()
        for index in range(self._count):
            one._advance()
            one._read()
            if 0 <= key < one._key_size:
                found.append((index, "key"))
            elif 0 <= value < one._value_size:
                found.append((index, "value"))
            elif 0 <= record < one._end - one._start:
                found.append((index, "record"))
            if len(found) >= max_results:
                break
            if index & _COMPILED == _COMPILED:
                checkpoint()
        return found

    def timestamps(self) -> array[int]:
        """The timestamps of all records, ms since 1970."""
        if self._append_time is not None:
            return array("q", (self._append_time,)) * self._count
        found = _zeros(self._count)
        record = self._cursor()
        base = self._base_timestamp
        for index in range(self._count):
            record._advance()
            delta, _ = varlong(record._data, record._start + 1)
            _set(found, index, _sum(base, delta))
            if index & _COMPILED == _COMPILED:
                checkpoint()
        return found

    def sizes(self) -> tuple[array[int], array[int]]:
        """The sizes of all keys and of all values in bytes; -1 for null."""
        keys, values = _zeros(self._count), _zeros(self._count)
        record = self._cursor()
        for index in range(self._count):
            record._advance()
            record._read()
            _set(keys, index, record._key_size)
            _set(values, index, record._value_size)
            if index & _COMPILED == _COMPILED:
                checkpoint()
        return keys, values

    def _cursor(self) -> Record:
        """A record positioned before the first one."""
        record = Record.__new__(Record)
        record._append_time = self._append_time
        record._base_timestamp = self._base_timestamp
        record._data = self.payload
        record._index = -1
        record._end = 0
        return record

    def _find_starts(self) -> array[int]:
        starts = array("q")
        record = self._cursor()
        for _ in range(self._count):
            starts.append(record._end)
            record._advance()
        return starts


def _zeros(count: int) -> array[int]:
    return array("q", bytes(8 * count))


def _set(found: array[int], index: int, value: int) -> None:
    if cython.compiled:  # as an object a number takes ten times as long
        found.data.as_longlongs[index] = value  # type: ignore[attr-defined]
    else:
        found[index] = value


def _sum(one: int, other: int) -> int:
    """In 64 bits, beyond which it goes round as it does for consumers."""
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.ulonglong, one) + cython.cast(cython.ulonglong, other))  # type: ignore[no-any-return]
    return (one + other + 2**63) % 2**64 - 2**63


def check(data: bytes, count: int) -> None:
    """Check that ``data`` is exactly ``count`` well-formed records.

    Raises:
        CodecError: it is not.
    """
    at = 0
    if count < 0 or count > len(data) // MIN_RECORD_BYTES:
        raise CodecError(f"invalid number of records {count} for {len(data)} bytes")
    try:
        for index in range(count):
            at = _record_end(data, at, index)
            if index & _COMPILED == _COMPILED:
                checkpoint()
    except IndexError as error:
        raise TruncatedError("the records end inside a record") from error
    if at != len(data):
        raise CodecError(f"{len(data) - at} bytes follow the last of {count} records")


def _record_end(data: bytes, at: int, index: int) -> int:
    """The end of the record at ``at``; IndexError if the data end before it.

    Positions only grow: if the last one is the end of the record, all fields are inside it.
    """
    raw = data[at]
    at += 1
    if raw > 127:
        raw, at = _longer(data, at, raw)
    end = -1 if raw & 1 else at + (raw >> 1)
    start = at = at + 1
    while data[at] > 127:
        at += 1
    if at - start > 8 and (at - start > 9 or data[at] > 1):
        raise _bad(index, "its timestamp delta does not fit 64 bits")
    start = at = at + 1
    while data[at] > 127:
        at += 1
    if at - start > 3 and (at - start > 4 or data[at] > 15):
        raise _bad(index, "its offset delta does not fit 32 bits")
    at += 1
    for _ in range(2):
        raw = data[at]
        at += 1
        if raw > 127:
            raw, at = _longer(data, at, raw)
        if raw & 1 and raw != NULL:
            raise _bad(index, "invalid length of its key or value")
        at += raw >> 1
    raw = data[at]
    at += 1
    at = _headers_end(data, at, raw, index) if raw else at
    if at != end:
        raise _bad(index, "its length is not that of its fields")
    return at


def _headers_end(data: bytes, at: int, raw: int, index: int) -> int:
    """The end of the headers; ``raw`` is the first byte of their count, ``at`` the position after it."""
    if raw > 127:
        raw, at = _longer(data, at, raw)
    if raw & 1:
        raise _bad(index, "invalid number of headers")
    for header in range(raw >> 1):
        if header & _COMPILED == _COMPILED:
            checkpoint()
        raw = data[at]
        at += 1
        if raw > 127:
            raw, at = _longer(data, at, raw)
        if raw & 1:
            raise _bad(index, "invalid length of the key of a header")
        at += raw >> 1
        raw = data[at]
        at += 1
        if raw > 127:
            raw, at = _longer(data, at, raw)
        if raw & 1 and raw != NULL:
            raise _bad(index, "invalid length of the value of a header")
        at += raw >> 1
    return at


def _bad(index: int, what: str) -> CodecError:
    return CodecError(f"record {index}: {what}")


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a varint after its ``first`` byte: its raw value and the position after it.

    -1 if it does not fit 32 bits, which is an invalid length everywhere. An exception would have to be checked for
    after each call in C.
    """
    raw = first & 127
    shift = 7
    while shift < 35 and at < len(data):
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128 and raw >> 32 == 0:
            return raw, at
        shift += 7
    return -1, at
