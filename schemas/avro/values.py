"""Values of an Avro schema as objects, for conditions; `walk` has accepted their bytes: nothing is checked again.

Logical types: a time is the duration since midnight, a local timestamp is taken as UTC, a decimal is a float. What a
datetime cannot hold stays a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any
from uuid import UUID

from kafka_sidecar.codec.checkpoint import checkpoint
from kafka_sidecar.schemas.avro.types import AvroType, Logical
from kafka_sidecar.schemas.avro.walk import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    MAP,
    NULL,
    RECORD,
    STRING,
    UNION,
)  # fmt: skip

MAX_EMPTY = 100_000  # elements that take no bytes
ITEMS = 1023  # of an array or map between two checkpoints, as a mask
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_US = {"date": 86_400_000_000, "millis": 1000, "micros": 1}  # microseconds of a unit


def decode(types: Mapping[int, AvroType], data: bytes, start: int, end: int) -> Any:
    """The value of the first type that is ``data[start:end]``.

    Raises:
        ValueError: it has too many elements that take no bytes.
    """
    return _Reader(types, data, start, end).read(types[0])


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """A number (zigzag, seven bits a byte), and the position after it."""
    byte = data[at]
    at += 1
    bits, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        shift += 7
    return (bits >> 1) ^ -(bits & 1), at


class _Reader:
    """Reads on in one value."""

    __slots__ = ("_at", "_data", "_left", "_types")

    def __init__(self, types: Mapping[int, AvroType], data: bytes, start: int, end: int) -> None:
        self._types, self._data, self._at = types, data, start
        self._left = end - start + MAX_EMPTY  # elements

    def read(self, about: AvroType) -> Any:
        # One frame of Python for each level, so no comprehensions: a value has at most 512 levels.
        if about.kind == UNION:
            about = self._types[about.parts[self._number()]]
        found: dict[str, Any] = {}
        if about.kind == RECORD:
            types = self._types
            for name, part in zip(about.names, about.parts, strict=True):
                found[name] = self.read(types[part])
            return found
        if about.kind == MAP:
            inner = self._types[about.parts[0]]
            for _ in self._items():
                key = self._bytes().decode()
                found[key] = self.read(inner)
            return found
        if about.kind == ARRAY:
            inner, elements = self._types[about.parts[0]], []
            for _ in self._items():
                elements.append(self.read(inner))  # noqa: PERF401
            return elements
        value = _SCALARS[about.kind](self, about)
        return value if about.logical is None else _MEANINGS[about.logical.name](value, about.logical)

    def _items(self) -> Any:
        """Once for each element of the blocks."""
        while count := self._number():
            if count < 0:
                count = -count
                self._number()  # bytes of the block
            self._left -= count
            if self._left < 0:
                raise ValueError("too many elements that take no bytes")
            for number in range(count):
                if number & ITEMS == ITEMS:
                    checkpoint()
                yield None

    def _number(self) -> int:
        number, self._at = number_at(self._data, self._at)
        return number

    def _take(self, size: int) -> bytes:
        at = self._at
        self._at = at + size
        return self._data[at : self._at]

    def _bytes(self) -> bytes:
        return self._take(self._number())


_SCALARS: Mapping[int, Callable[[_Reader, AvroType], Any]] = {
    NULL: lambda reader, about: None,
    BOOLEAN: lambda reader, about: reader._take(1) == b"\1",
    INT: lambda reader, about: reader._number(),
    LONG: lambda reader, about: reader._number(),
    FLOAT: lambda reader, about: _FLOAT.unpack(reader._take(4))[0],
    DOUBLE: lambda reader, about: _DOUBLE.unpack(reader._take(8))[0],
    BYTES: lambda reader, about: reader._bytes(),
    STRING: lambda reader, about: reader._bytes().decode(),
    FIXED: lambda reader, about: reader._take(about.size),
    ENUM: lambda reader, about: about.names[reader._number()],
}


def _instant(value: int, logical: Logical) -> datetime | int:
    unit = logical.name.rpartition("-")[2]
    try:
        return _EPOCH + timedelta(microseconds=value // 1000 if unit == "nanos" else value * _US[unit])
    except OverflowError:
        return value


def _time(value: int, logical: Logical) -> timedelta | int:
    try:
        return timedelta(microseconds=value * _US[logical.name.rpartition("-")[2]])
    except OverflowError:
        return value


def _decimal(value: bytes, logical: Logical) -> float:
    unscaled = int.from_bytes(value, signed=True)
    try:
        return float(unscaled / 10**logical.scale)
    except OverflowError:
        return float("-inf") if unscaled < 0 else float("inf")


def _uuid(value: str | bytes, logical: Logical) -> str:
    return value if isinstance(value, str) else str(UUID(bytes=value))


_MEANINGS: Mapping[str, Callable[[Any, Logical], Any]] = {
    "date": _instant,
    "time-millis": _time,
    "time-micros": _time,
    **{
        f"{kind}-{unit}": _instant
        for kind in ("timestamp", "local-timestamp")
        for unit in ("millis", "micros", "nanos")
    },
    "uuid": _uuid,
    "decimal": _decimal,
}
