# cython: boundscheck=False
"""Reads Kafka's primitive types one after the other, where creating a message's objects would take too long.

This file runs as it is and compiled (cursor.pxd holds the C types). Each read checks its bounds before it indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_sidecar.codec.errors import CodecError, TooManyError, TruncatedError
from kafka_sidecar.codec.schema.plans import EACH, NULLABLE, SKIP, SKIP_STRING, SKIP_TAGS
from kafka_sidecar.codec.wire import (
    CLIENT_ID_AT,
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
_CLIENT_ID_AT = CLIENT_ID_AT
_ID_SIZE = ID_SIZE
_NULL = -1
_MAX_UVARINT_BYTES = MAX_UVARINT_BYTES
_MAX_STRING_BYTES = MAX_STRING_BYTES
_ONE_BYTE = 128  # a varint below is one byte
_STRING = 2  # size of the length of a string
_UNLIMITED = UNLIMITED
_SKIP, _SKIP_TAGS, _SKIP_STRING, _EACH, _NULLABLE = SKIP, SKIP_TAGS, SKIP_STRING, EACH, NULLABLE
_KINDS = NULLABLE - 1

if not cython.compiled:  # for C they are in cursor.pxd

    def read_big_endian(data: bytes, at: int, size: int) -> int:
        """The signed integer data[at : at + size]. The caller has checked the bounds."""
        return int.from_bytes(data[at : at + size], "big", signed=True)

    def is_text(known: object, data: bytes, at: int, size: int) -> bool:
        """Whether ``known``, bytes or an ASCII string, is data[at : at + size]; may be False of other strings."""
        text = known.encode("utf-8", "surrogateescape") if isinstance(known, str) else known
        return data[at : at + size] == text

    def prefetch(data: bytes, at: int, size: int) -> None:
        """Load data[at : at + size] into the CPU's cache, if compiled. The caller has checked the bounds."""


class Cursor:
    """A position in ``data`` that moves forward as values are read, up to ``end``. All methods raise CodecError,
    TruncatedError at the end of the bytes. `cursor_at` creates one."""

    __slots__ = ("_end", "_limit", "_room", "at", "data", "flexible")

    data: bytes
    at: int
    flexible: bool  # whether lengths are varints and structs end with tagged fields (KIP-482)
    _end: int
    _limit: int
    _room: int

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes; none if it is negative (null)."""
        if size > self._end - self.at:
            raise self._truncated()
        if size > 0:
            self.at += size

    def take(self, size: int) -> int:
        """Skip ``size`` bytes; where they begin."""
        at = self.at
        self.skip(size)
        return at

    def integer(self, size: int) -> int:
        """A signed integer of 1 to 8 bytes."""
        return read_big_endian(self.data, self.take(size), size)

    def _uvarint(self) -> int:
        value = shift = 0
        at = self.at
        for _ in range(_MAX_UVARINT_BYTES):
            if at >= self._end:
                raise self._truncated()
            byte = self.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self.at = at
                return value
            shift += 7
        raise CodecError(f"a varint is longer than {_MAX_UVARINT_BYTES} bytes at {self.at}")

    def length(self, size: int, nullable: bool, what: str) -> int:
        """The length of a string (``size`` 2), or of bytes or an array (``size`` 4); -1: null. ``size`` is that of the
        length field in versions that are not flexible."""
        at = self.at
        if not self.flexible:
            found = self.integer(size)
        elif at < self._end and self.data[at] < _ONE_BYTE:
            found = self.data[at] - 1
            self.at = at + 1
        else:
            found = self._uvarint() - 1
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

    def topic(self, by_id: bool, known: str | bytes | None = None) -> str | bytes:
        """A topic's 16-byte id, or its name; ``known`` itself if it is equal: most requests repeat a topic."""
        size = _ID_SIZE if by_id else self.length(2, False, "a topic's name")
        at = self.take(size)
        if known is not None and is_text(known, self.data, at, size):
            return known
        text = self.data[at : at + size]
        return text if by_id else text.decode("utf-8", "surrogateescape")

    def has_tags(self) -> bool:
        """Whether tagged fields follow; an empty tag section is skipped."""
        if not self.flexible:
            return False
        if self.at >= self._end:
            raise self._truncated()
        if self.data[self.at]:
            return True
        self.at += 1
        return False

    def read_tags(self, known: dict[int, Callable[[Buffer, int], tuple[Any, int]]]) -> None:
        """Skip a tag section.

        Args:
            known: functions that read the declared fields, by number; a field that they cannot read is an error.
        """
        _, _, self.at = read_known_tags(self.data, self.at, known)
        if self.at > self._end:
            raise self._truncated()

    def skip_tags(self) -> None:
        """Skip a tag section, if there is one, in which no field is known."""
        count = self._uvarint() if self.has_tags() else 0
        if count > (self._end - self.at) // 2:
            raise self._truncated()
        for _ in range(count):
            self._uvarint()
            self.skip(self._uvarint())

    def skip_request_header(self, flexible: bool) -> None:
        """Skip the length and the header of a request frame of a version that is flexible or not."""
        self.flexible = False
        self.skip(_CLIENT_ID_AT)
        self.skip(self.length(2, True, "client_id"))
        self.flexible = flexible
        self.skip_tags()

    def skip_response_header(self) -> None:
        """Skip the length and the header of a response frame, which has tagged fields in flexible versions."""
        self.skip(8)
        self.skip_tags()

    def follow(self, plan: bytes) -> None:
        """Step over the fields of a plan."""
        if plan:
            self._follow(plan, 0, len(plan))

    def _follow(self, plan: bytes, step: int, end: int) -> None:
        while step < end:
            kind, size = plan[step], plan[step + 1]
            step += 2
            if kind == _SKIP:
                if size > self._end - self.at:
                    raise self._truncated()
                self.at += size
            elif kind == _SKIP_TAGS:
                if self.at < self._end and not self.data[self.at]:  # as nearly always
                    self.at += 1
                else:
                    self.skip_tags()
            elif kind & _KINDS == _SKIP_STRING:
                self.skip(self.length(_STRING, kind & _NULLABLE != 0, "a string"))
            else:
                found = self.length(4, kind & _NULLABLE != 0, "an array")
                if kind & _KINDS != _EACH:
                    self.skip(found * size)
                    continue
                for _ in range(found):
                    self._follow(plan, step, step + size)
                step += size

    def _text(self, size: int) -> str | None:
        if size < 0:
            return None
        at = self.take(size)
        return self.data[at : self.at].decode("utf-8", "surrogateescape")

    def _truncated(self) -> TruncatedError:
        return TruncatedError(f"truncated at byte {self._end}")


def cursor_at(data: bytes, at: int, end: int, flexible: bool) -> Cursor:
    """A cursor at data[at], which reads up to data[end].

    Raises:
        TruncatedError: these bytes are not in ``data``.
    """
    if not 0 <= at <= end <= len(data):
        raise TruncatedError(f"no bytes {at} to {end} in {len(data)}")
    cursor = Cursor.__new__(Cursor)
    cursor.data, cursor.at, cursor._end, cursor.flexible = data, at, end, flexible
    cursor._limit = cursor._room = _UNLIMITED
    return cursor


def ends_with_tags(data: bytes, at: int, end: int, plan: bytes) -> bool:
    """Whether the response data[at:end] of a flexible version, which begins with its length, has tagged fields after
    the fields of ``plan``."""
    cursor = cursor_at(data, at, end, True)
    cursor.skip_response_header()
    cursor.follow(plan)
    return cursor.has_tags()
