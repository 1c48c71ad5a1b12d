# cython: boundscheck=False
"""Reads Kafka's primitive types one after the other, where creating a message's objects would take too long.

This file runs as it is and compiled (cursor.pxd holds the C types). Each read checks its bounds before it indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_sidecar.codec.errors import CodecError, TooManyError, TruncatedError
from kafka_sidecar.codec.wire import (
    ID_SIZE,
    MAX_STRING_BYTES,
    MAX_UVARINT_BYTES,
    UNLIMITED,
    Buffer,
    bad_length,
    read_known_tags,
)

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

# For C.
_ID_SIZE = ID_SIZE
_NULL = -1
_MAX_UVARINT_BYTES = MAX_UVARINT_BYTES
_MAX_STRING_BYTES = MAX_STRING_BYTES
_STRING = 2  # size of the length of a string
_UNLIMITED = UNLIMITED


class Cursor:
    """A position in ``data`` that moves forward as values are read, up to ``end``. All methods raise CodecError,
    TruncatedError at the end of the bytes."""

    __slots__ = ("_data", "_end", "_limit", "_room", "at", "flexible")

    def __init__(self, data: bytes, at: int, end: int, flexible: bool) -> None:
        if not 0 <= at <= end <= len(data):
            raise TruncatedError(f"no bytes {at} to {end} in {len(data)}")
        self._data = data
        self._end = end
        self.at = at
        self._limit = self._room = _UNLIMITED
        self.flexible = flexible  # whether lengths are varints and structs end with tagged fields (KIP-482)

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes; none if it is negative (null)."""
        if size > self._end - self.at:
            raise self._truncated()
        if size > 0:
            self.at += size

    def integer(self, size: int) -> int:
        """A signed integer of 1 to 8 bytes."""
        at = self.at
        data = self._data
        self.skip(size)
        if not cython.compiled:
            return int.from_bytes(data[at : at + size], "big", signed=True)
        value = data[at]
        if value > 127:
            value -= 256
        for index in range(at + 1, at + size):
            value = value * 256 + data[index]
        return value

    def _uvarint(self) -> int:
        value = shift = 0
        for _ in range(_MAX_UVARINT_BYTES):
            if self.at >= self._end:
                raise self._truncated()
            byte = self._data[self.at]
            self.at += 1
            if byte < 128:
                return value | byte << shift
            value |= (byte & 127) << shift
            shift += 7
        raise CodecError(f"a varint is longer than {_MAX_UVARINT_BYTES} bytes at {self.at - _MAX_UVARINT_BYTES}")

    def length(self, size: int, nullable: bool, what: str) -> int:
        """The length of a string (``size`` 2), or of bytes or an array (``size`` 4); -1: null. ``size`` is that of the
        length field in versions that are not flexible."""
        found = self._uvarint() - 1 if self.flexible else self.integer(size)
        if (found < 0 and (found < _NULL or not nullable)) or (found > _MAX_STRING_BYTES and size == _STRING):
            raise bad_length(what, found)
        return found

    def count(self, min_bytes: int, what: str) -> int:
        """The number of elements of an array; ``min_bytes`` is the minimum size of an element."""
        found = self.length(4, False, what)
        if found > (self._end - self.at) // min_bytes:
            raise self._truncated()
        return found

    def limit(self, partitions: int) -> None:
        """Let `topics` and `partitions` raise TooManyError for more than so many in all."""
        self._limit = self._room = partitions

    def topics(self, min_bytes: int, what: str) -> int:
        """As `count`, for the topics of a message."""
        found = self.count(min_bytes, what)
        if found > self._limit:
            raise TooManyError(f"{found} topics, more than {self._limit}")
        return found

    def partitions(self, min_bytes: int, what: str) -> int:
        """As `count`, for the partitions of a topic."""
        found = self.count(min_bytes, what)
        self._room -= found
        if self._room < 0:
            raise TooManyError(f"{self._limit - self._room} partitions, more than {self._limit}")
        return found

    def string(self, nullable: bool, what: str) -> str | None:
        """A string; bytes that are not UTF-8 become lone surrogates."""
        return self._text(self.length(2, nullable, what))

    def topic(self, by_id: bool) -> str | bytes:
        """A topic's 16-byte id, or its name."""
        if not by_id:
            return self._text(self.length(2, False, "a topic's name"))  # type: ignore[return-value]
        self.skip(_ID_SIZE)
        return self._data[self.at - _ID_SIZE : self.at]

    def has_tags(self) -> bool:
        """Whether tagged fields follow; an empty tag section is skipped."""
        if not self.flexible:
            return False
        if self.at >= self._end:
            raise self._truncated()
        if self._data[self.at]:
            return True
        self.at += 1
        return False

    def read_tags(self, known: dict[int, Callable[[Buffer, int], tuple[Any, int]]]) -> None:
        """Skip a tag section.

        Args:
            known: functions that read the declared fields, by number; a field that they cannot read is an error.
        """
        _, _, self.at = read_known_tags(self._data, self.at, known)

    def skip_tags(self) -> None:
        """Skip a tag section, if there is one, in which no field is known."""
        if self.has_tags():
            self.read_tags({})

    def _text(self, size: int) -> str | None:
        if size < 0:
            return None
        at = self.at
        self.skip(size)
        return self._data[at : self.at].decode("utf-8", "surrogateescape")

    def _truncated(self) -> TruncatedError:
        return TruncatedError(f"truncated at byte {self._end}")
