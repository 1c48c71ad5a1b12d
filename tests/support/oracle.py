"""Kafka's messages built and read by kio, which shares no code with the codec: the reference of the tests.

Values are given by Kafka's field names; a struct may be a plain mapping, and missing fields are zero, empty or null.
"""

from __future__ import annotations

import datetime
import enum
import io
import types
import uuid
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

_NEVER = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def request(key: int, version: int, /, **values: Any) -> Any:
    """A request of kio's; fields that the version does not have are omitted."""
    return _struct(load_request_schema(key, version), values)


def response(key: int, version: int, /, **values: Any) -> Any:
    """A response of kio's; fields that the version does not have are omitted."""
    return _struct(load_response_schema(key, version), values)


def encoded(entity: Any) -> bytes:
    """The bytes of one message, without a header."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def request_frame(entity: Any, correlation_id: int, client_id: str | None = "app") -> bytes:
    """A whole request as it is on the wire: length, header, body."""
    kind = type(entity)
    header = kind.__header_schema__(
        request_api_key=kind.__api_key__,
        request_api_version=kind.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return framed(encoded(header) + encoded(entity))


def response_frame(entity: Any, correlation_id: int) -> bytes:
    """A whole response as it is on the wire: length, header, body."""
    return framed(encoded(type(entity).__header_schema__(correlation_id=correlation_id)) + encoded(entity))


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def read_response(key: int, version: int, frame: bytes, *, whole: bool = True) -> tuple[int, Any]:
    """Correlation id and message of a response; fails where a byte is left over, unless not ``whole``."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    kind = load_response_schema(key, version)
    header, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    entity, end = entity_reader(kind)(frame[4 + size :], 0)
    assert not whole or 4 + size + end == len(frame)
    return header.correlation_id, entity


def frames_of(data: bytes) -> list[bytes]:
    """A stream cut into frames, length prefixes included; fails where the last one is cut off."""
    found = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big", signed=True)
        assert 8 <= size <= len(data), f"a frame of {size} bytes, {len(data)} left"
        found.append(data[:size])
        data = data[size:]
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _struct(kind: Any, values: Mapping[str, Any]) -> Any:
    given = {}
    for field in fields(kind):
        if field.name in values:
            given[field.name] = _value(_hints(kind)[field.name], values[field.name])
        elif field.default is MISSING:
            given[field.name] = _zero(_hints(kind)[field.name])
    return kind(**given)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    kind = _not_none(hint)
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], item) for item in value)
    if isinstance(value, Mapping):
        return _struct(kind, value)
    if isinstance(value, bytes) and issubclass(kind, uuid.UUID):
        return uuid.UUID(bytes=value)
    return kind(value) if issubclass(kind, enum.Enum) else value


def _zero(hint: Any) -> Any:
    kind = _not_none(hint)
    if kind is not hint and kind is not uuid.UUID:
        return None
    if get_origin(kind) is tuple:
        return ()
    if hasattr(kind, "__dataclass_fields__"):
        return _struct(kind, {})
    if issubclass(kind, enum.Enum):
        return kind(0)
    return next(zero for base, zero in _ZEROES.items() if issubclass(kind, base))


def _not_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(part for part in get_args(hint) if part is not types.NoneType)
    return hint


_ZEROES: dict[type, Any] = {
    bool: False,
    int: 0,
    str: "",
    bytes: b"",
    float: 0.0,
    uuid.UUID: None,
    datetime.timedelta: datetime.timedelta(0),
    datetime.datetime: _NEVER,
}
