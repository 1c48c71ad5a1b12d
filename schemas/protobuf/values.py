"""Messages as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL = "google.protobuf.NullValue"
_WRAPPED = ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")


class _RangeError(ValueError):
    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.path = ""


def to_value(message: Any) -> Any:
    """The value of a message.

    Raises:
        ValueError: a time that Python does not have is in it; with the path.
    """
    try:
        return _value_of(message)
    except _RangeError as error:
        raise ValueError(f"${error.path}: {error.rule}") from error


def _value_of(message: Any) -> Any:
    own = _OWN.get(message.DESCRIPTOR.full_name)
    return own(message) if own is not None else _fields_of(message)


def _fields_of(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if not field.has_presence or message.HasField(name):
            found[name] = _field(field, getattr(message, name))
    if message.DESCRIPTOR.is_extendable:
        for field, value in message.ListFields():
            if field.is_extension:
                found[f"[{field.full_name}]"] = _field(field, value)
    return found


def _field(field: Any, value: Any) -> Any:
    try:
        if not field.is_repeated:
            return _one(field, value)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            return {key: _one(inner, value[key]) for key in value}
        return [_one(field, one) for one in value]
    except _RangeError as error:
        error.path = f".{field.name}{error.path}"
        raise


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _value_of(value)
    if field.enum_type is not None:
        if field.enum_type.full_name == _NULL:
            return None
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes) and field.type == field.TYPE_STRING:  # of a schema that does not ask for UTF-8
        return value.decode("utf-8", "replace")
    return value


def _timestamp(message: Any) -> datetime:
    try:
        return _EPOCH + _span(message)
    except OverflowError:
        raise _RangeError("a time that is not in the years 1 to 9999") from None


def _duration(message: Any) -> timedelta:
    try:
        return _span(message)
    except OverflowError:
        raise _RangeError("a duration of too many days") from None


def _span(message: Any) -> timedelta:
    return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def _struct(message: Any) -> dict[str, Any]:
    return {name: _json(message.fields[name]) for name in message.fields}


def _list(message: Any) -> list[Any]:
    return [_json(one) for one in message.values]


def _json(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    value = getattr(message, kind)
    return _struct(value) if kind == "struct_value" else _list(value) if kind == "list_value" else value


# Those of Protobuf's own types that stand for a value.
_OWN: Mapping[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Value": _json,
    **{f"google.protobuf.{name}Value": lambda message: message.value for name in _WRAPPED},
}
