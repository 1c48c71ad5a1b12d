"""Messages as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from kafka_sidecar.codec.checkpoint import checkpoint

AT_ONCE = 10_000  # elements of a list, 0.2 ms
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL = "google.protobuf.NullValue"
_WRAPPED = ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")


class _RangeError(ValueError):
    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.path = ""


class _Plan(NamedTuple):
    """How a field of a message becomes a value."""

    name: str
    has_presence: bool
    kind: int  # _PLAIN, _LIST or _MAP
    convert: Callable[[Any], Any] | None  # of one value; None: it stays as it is


_PLAIN, _LIST, _MAP = range(3)


class Reader:
    """Makes values of the messages of one pool."""

    def __init__(self) -> None:
        self._plans: dict[str, list[_Plan]] = {}  # by the types' names
        self._converters: dict[str, Callable[[Any], Any] | None] = {}  # by the fields' names

    def value_of(self, message: Any) -> Any:
        """The value of a message.

        Raises:
            ValueError: a time that Python does not have is in it; with the path.
        """
        try:
            return self._converter_of(message.DESCRIPTOR)(message)
        except _RangeError as error:
            raise ValueError(f"${error.path}: {error.rule}") from error

    def _converter_of(self, descriptor: Any) -> Callable[[Any], Any]:
        own = _OWN.get(descriptor.full_name)
        if own is not None:
            return own
        if descriptor.is_extendable:
            return self._extended
        return self._fields_of(descriptor.full_name, descriptor)

    def _fields_of(self, name: str, descriptor: Any) -> Callable[[Any], Any]:
        plans = self._plans.get(name)
        if plans is None:
            plans = self._plans[name] = []  # before its fields: they may refer to it
            plans += (self._plan(field) for field in descriptor.fields)

        def convert(message: Any) -> dict[str, Any]:
            found = {}
            for name, has_presence, kind, inner in plans:
                if has_presence and not message.HasField(name):
                    continue
                value = getattr(message, name)
                found[name] = value if kind == _PLAIN and inner is None else _convert(name, kind, inner, value)
            return found

        return convert

    def _extended(self, message: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._fields_of(message.DESCRIPTOR.full_name, message.DESCRIPTOR)(message)
        for field, value in message.ListFields():
            if field.is_extension:
                name = f"[{field.full_name}]"
                found[name] = _convert(name, _LIST if field.is_repeated else _PLAIN, self._of_one(field), value)
        return found

    def _plan(self, field: Any) -> _Plan:
        kind = _LIST if field.is_repeated else _PLAIN
        inner = field
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            kind, inner = _MAP, field.message_type.fields_by_name["value"]
        return _Plan(field.name, field.has_presence, kind, self._of_one(inner))

    def _of_one(self, field: Any) -> Callable[[Any], Any] | None:
        if field.message_type is not None:
            return self._converter_of(field.message_type)
        if field.enum_type is not None:
            if field.enum_type.full_name == _NULL:
                return lambda _: None
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        return _text if field.type == field.TYPE_STRING else None


def _convert(name: str, kind: int, inner: Callable[[Any], Any] | None, value: Any) -> Any:
    try:
        if kind == _PLAIN:
            return value if inner is None else inner(value)
        if kind == _MAP:
            return dict(value) if inner is None else {key: inner(value[key]) for key in value}
        return _elements(value) if inner is None else [inner(one) for one in value]
    except _RangeError as error:
        error.path = f".{name}{error.path}"
        raise


def _elements(values: Any) -> list[Any]:
    """The library makes objects of them, and nothing else runs meanwhile: of some at a time."""
    found: list[Any] = []
    for at in range(0, len(values), AT_ONCE):
        checkpoint()
        found += values[at : at + AT_ONCE]
    return found


def _text(value: Any) -> Any:
    """Of a schema that does not ask for UTF-8, other bytes may be in a text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


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
    return {name: _json(value) for name, value in message.fields.items()}


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
