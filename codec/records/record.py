# cython: boundscheck=False
"""One record of a decompressed batch and its headers, read lazily.

This file runs as it is and compiled (record.pxd holds the C types): keep to integers, bytes and plain loops. The
layout is in check.py. All records read here have been checked there, so bounds are not checked again.
"""

from __future__ import annotations

from kafka_sidecar.codec.checkpoint import COMPILED, checkpoint
from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES, copy

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcmp

NULL = 1  # -1, zigzag coded
_COMPILED, _LARGE = COMPILED, MIN_LARGE_BYTES  # for C


class Header:
    """One header of a record (KIP-82)."""

    __slots__ = ("key_bytes", "value")

    def __init__(self, key: str | bytes, value: bytes | None) -> None:
        self.key_bytes = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
        self.value = value

    @property
    def key(self) -> str:
        """The name; bytes that are not UTF-8 are kept as lone surrogates (PEP 383)."""
        return self.key_bytes.decode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Header):
            return NotImplemented
        return self.key_bytes == other.key_bytes and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.key_bytes, self.value))

    def __repr__(self) -> str:
        return f"Header({self.key!r}, {self.value!r})"


def header_of(key: bytes, value: bytes | None) -> Header:
    """A header, created without the constructor."""
    header = Header.__new__(Header)
    header.key_bytes = key
    header.value = value
    return header


class Record:
    """One record, read only. Its parts are copied when they are read. Created by `Records`."""

    __slots__ = (
        "_append_time", "_base_timestamp", "_begin", "_data", "_end", "_headers_at", "_index", "_key_at", "_key_size",
        "_start", "_value_at", "_value_size",
    )  # fmt: skip

    _append_time: int | None
    _base_timestamp: int
    _data: bytes
    _index: int
    _end: int

    @property
    def index(self) -> int:
        """The index in the batch, from 0; KIP-467 reports invalid records by it."""
        return self._index

    @property
    def attributes(self) -> int:
        """Not used by Kafka so far."""
        return self._data[self._start]

    @property
    def timestamp_delta(self) -> int:
        """Milliseconds since the batch's base timestamp."""
        value, _ = varlong(self._data, self._start + 1)
        return value

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970: the client's, or the broker's if the topic has log append time."""
        if self._append_time is not None:
            return self._append_time
        time = self._base_timestamp + self.timestamp_delta
        return (time + 2**63) % 2**64 - 2**63  # overflows as it does in consumers, which add in 64 bits

    @property
    def offset_delta(self) -> int:
        """The difference to the batch's base offset; offsets in between may be missing (compaction)."""
        _, at = varlong(self._data, self._start + 1)
        value, _ = varlong(self._data, at)
        return value

    @property
    def key_size(self) -> int:
        """Bytes; -1 for null."""
        self._read()
        return self._key_size

    @property
    def key(self) -> bytes | None:
        """The bytes of the key, copied; None for null."""
        self._read()
        return None if self._key_size < 0 else _slice(self._data, self._key_at, self._key_at + self._key_size)

    def key_prefix(self, size: int) -> bytes | None:
        """The first ``size`` bytes of the key, or all if it is shorter; -1: all."""
        self._read()
        if self._key_size < 0:
            return None
        return _slice(self._data, self._key_at, self._key_at + _smaller(size, self._key_size))

    @property
    def value_size(self) -> int:
        """Bytes; -1 for null."""
        self._read()
        return self._value_size

    @property
    def value(self) -> bytes | None:
        """The bytes of the value, copied; None for null."""
        self._read()
        return None if self._value_size < 0 else _slice(self._data, self._value_at, self._value_at + self._value_size)

    def value_prefix(self, size: int) -> bytes | None:
        """The first ``size`` bytes of the value, or all if it is shorter; -1: all."""
        self._read()
        if self._value_size < 0:
            return None
        return _slice(self._data, self._value_at, self._value_at + _smaller(size, self._value_size))

    @property
    def headers(self) -> tuple[Header, ...]:
        """In the order in which they were added; a name may occur several times."""
        self._read()
        data = self._data
        raw, at = uvarint(data, self._headers_at)
        found = []
        for _ in range(raw >> 1):
            raw, at = uvarint(data, at)
            end = at + (raw >> 1)
            key = _slice(data, at, end)
            raw, at = uvarint(data, end)
            end = at + (raw >> 1)
            found.append(header_of(key, None if raw == NULL else _slice(data, at, end)))
            at = end
        return tuple(found)

    def header(self, name: str | bytes) -> Header | None:
        """The last header of that name (KIP-82 ``lastHeader``), None if there is none."""
        key: bytes = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
        at = self._find(key)
        if at < 0:
            return None
        raw, at = uvarint(self._data, at)
        return header_of(key, None if raw == NULL else _slice(self._data, at, at + (raw >> 1)))

    def edges(self) -> tuple[int, int, int, int, int, int]:
        """Positions in the payload of: its length, its attributes, the key's length, the value's length, the number of
        headers, its end. For edits that keep all other bytes."""
        self._read()
        _, at = varlong(self._data, self._start + 1)
        _, keys_at = varlong(self._data, at)
        values_at = self._key_at + max(self._key_size, 0)
        return self._begin, self._start, keys_at, values_at, self._headers_at, self._end

    def _advance(self) -> None:
        """Move to the next record."""
        self._begin = self._end
        raw, at = uvarint(self._data, self._begin)
        self._index += 1
        self._start = at
        self._end = at + (raw >> 1)
        self._headers_at = 0

    def _copy(self) -> Record:
        """A copy for the caller, with nothing read yet."""
        record = Record.__new__(Record)
        record._append_time = self._append_time
        record._base_timestamp = self._base_timestamp
        record._data = self._data
        record._index = self._index
        record._begin = self._begin
        record._start = self._start
        record._end = self._end
        record._headers_at = 0
        return record

    def _read(self) -> None:
        """Find the positions of key, value and headers."""
        if self._headers_at:
            return
        data = self._data
        at = self._start + 1
        while data[at] > 127:
            at += 1
        at += 1
        while data[at] > 127:
            at += 1
        raw, at = uvarint(data, at + 1)
        self._key_size = -1 if raw == NULL else raw >> 1
        self._key_at = at
        raw, at = uvarint(data, at + (raw >> 1))
        self._value_size = -1 if raw == NULL else raw >> 1
        self._value_at = at
        self._headers_at = at + (raw >> 1)

    def _find(self, name: bytes) -> int:
        """The position of the value's length of the last header of that name; -1: there is none."""
        self._read()
        data = self._data
        count, at = uvarint(data, self._headers_at)
        found = -1
        for _ in range(count >> 1):
            raw, at = uvarint(data, at)
            end = at + (raw >> 1)
            if raw >> 1 == len(name) and matches_at(name, data, at):
                found = end
            raw, at = uvarint(data, end)
            at += raw >> 1
        return found

    def __repr__(self) -> str:
        return f"Record(index={self.index}, key_size={self.key_size}, value_size={self.value_size})"


def find_missing_header(data: bytes, count: int, name: bytes, max_results: int) -> list[int]:
    """The indexes of the records without a header of that name, at most ``max_results`` of them."""
    found = []
    size = len(name)
    end = 0
    for index in range(count):
        raw, at = uvarint(data, end)
        end = at + (raw >> 1)
        at += 1
        while data[at] > 127:
            at += 1
        at += 1
        while data[at] > 127:
            at += 1
        raw, at = uvarint(data, at + 1)
        raw, at = uvarint(data, at + (raw >> 1))
        left, at = uvarint(data, at + (raw >> 1))
        while left > 1:
            raw, at = uvarint(data, at)
            raw >>= 1
            if raw == size and matches_at(name, data, at):
                break
            raw, at = uvarint(data, at + raw)
            at += raw >> 1
            left -= 2
        else:
            found.append(index)
            if len(found) >= max_results:
                break
        if index & _COMPILED == _COMPILED:
            checkpoint()
    return found


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """A varint before zigzag decoding, and the position after it."""
    raw = data[at]
    at += 1
    if raw < 128:
        return raw, at
    raw &= 127
    shift = 7
    byte = data[at]
    while byte > 127:
        raw |= (byte & 127) << shift
        shift += 7
        at += 1
        byte = data[at]
    return raw | byte << shift, at + 1


def varlong(data: bytes, at: int) -> tuple[int, int]:
    """The value of a varlong, and the position after it."""
    raw = 0
    shift = 0
    byte = data[at]
    while byte > 127:
        raw |= (byte & 127) << shift
        shift += 7
        at += 1
        byte = data[at]
    raw |= byte << shift
    return (raw >> 1) ^ -(raw & 1), at + 1


def matches_at(name: bytes, data: bytes, at: int) -> bool:
    """Whether ``name`` is at this position; the data must have enough bytes after it."""
    if cython.compiled:
        one, other = cython.cast(cython.p_char, data) + at, cython.cast(cython.p_char, name)
        return bool(memcmp(one, other, len(name)) == 0)
    return data.startswith(name, at)


def _smaller(one: int, other: int) -> int:
    """The smaller size; a negative ``one`` means no limit."""
    return other if one < 0 or one > other else one


def _slice(data: bytes, start: int, end: int) -> bytes:
    if end - start >= _LARGE:
        return copy(data, start, end)
    if cython.compiled:  # a slice would create three objects
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data) + start, end - start)  # type: ignore[no-any-return]
    return data[start:end]
