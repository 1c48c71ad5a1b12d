"""Protobuf schemas and values: one of each kind of type, and any; written by Google's library."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import strategies as st

Field = descriptor_pb2.FieldDescriptorProto
ORDER = """syntax = "proto3";
package shop;

message Order {
  int64 id = 1;
  bool paid = 2;
  State state = 3;
  bytes digest = 4;
  map<string, string> notes = 5;
  repeated Item items = 6;
  oneof how {
    string card = 7;
    int32 cash = 8;
  }
  repeated sint32 ratings = 9;

  enum State {
    NEW = 0;
    SENT = 1;
  }

  message Item {
    string sku = 1;
    double price = 2;
    Item part_of = 3;
  }
}

message Refund {
  int64 id = 1;
}
"""

ints, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
VALUES: dict[int, st.SearchStrategy[Any]] = {
    Field.TYPE_DOUBLE: st.floats(allow_nan=False),
    Field.TYPE_FLOAT: st.floats(width=32, allow_nan=False),
    Field.TYPE_INT64: longs,
    Field.TYPE_SINT64: longs,
    Field.TYPE_SFIXED64: longs,
    Field.TYPE_UINT64: st.integers(0, 2**64 - 1),
    Field.TYPE_FIXED64: st.integers(0, 2**64 - 1),
    Field.TYPE_INT32: ints,
    Field.TYPE_SINT32: ints,
    Field.TYPE_SFIXED32: ints,
    Field.TYPE_UINT32: st.integers(0, 2**32 - 1),
    Field.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    Field.TYPE_BOOL: st.booleans(),
    Field.TYPE_STRING: st.text(max_size=12),
    Field.TYPE_BYTES: st.binary(max_size=12),
}
KEYS = sorted(set(VALUES) - {Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_BYTES})
NUMBERS = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 100, 2047, 2048, 536_870_911])
SYNTAXES = ("proto2", "proto3", "editions")


def message_class(descriptor: Any, name: str) -> Any:
    """The class of a type in a file, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@st.composite
def files(draw: st.DrawFn) -> Any:
    """A file with up to four types, of which ``p.M0`` is the first; with groups, maps, oneofs, required fields."""
    syntax = draw(st.sampled_from(SYNTAXES))
    file = descriptor_pb2.FileDescriptorProto(name="any.proto", package="p")
    if syntax != "proto2":
        file.syntax = syntax
    if syntax == "editions":
        file.edition = descriptor_pb2.EDITION_2023
    enum = file.enum_type.add(name="E")
    for name, number in (("A", 0), ("B", 1), ("C", -1), ("D", 7)):
        enum.value.add(name=name, number=number)
    count = draw(st.integers(1, 4))
    for index in range(count):
        message = file.message_type.add(name=f"M{index}")
        oneof = draw(st.booleans())
        if oneof:
            message.oneof_decl.add(name="one_of")
        numbers = draw(st.lists(NUMBERS, unique=True, min_size=1, max_size=7))
        in_oneof = 0
        for at, number in enumerate(numbers):
            in_oneof += draw(_field(message, syntax, f"f{at}", number, count, oneof))
        if oneof and not in_oneof:
            message.ClearField("oneof_decl")
    return file


@st.composite
def _field(draw: st.DrawFn, message: Any, syntax: str, name: str, number: int, count: int, oneof: bool) -> bool:
    """Adds a field; whether it is part of the oneof."""
    field = message.field.add(name=name, number=number, label=draw(st.sampled_from([1, 1, 3])))
    kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "enum", "message", "map", "group"]))
    other = f".p.M{draw(st.integers(0, count - 1))}"
    if kind == "map":
        draw(_map_field(message, field, other))
        return False
    draw(_set_type(field, syntax, kind, other))
    if field.label == 1 and oneof and draw(st.booleans()):
        field.oneof_index = 0
        return True
    if field.label == 1 and syntax == "proto2" and draw(st.integers(0, 4)) == 0:
        field.label = Field.LABEL_REQUIRED
    elif field.label == 1 and syntax == "editions" and draw(st.integers(0, 4)) == 0:
        field.options.features.field_presence = descriptor_pb2.FeatureSet.LEGACY_REQUIRED
    return False


@st.composite
def _map_field(draw: st.DrawFn, message: Any, field: Any, other: str) -> None:
    entry = message.nested_type.add(name=f"{field.name.upper()}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=draw(st.sampled_from(KEYS)))
    value = entry.field.add(name="value", number=2, label=1)
    value.type = draw(st.sampled_from([*VALUES, Field.TYPE_MESSAGE]))
    if value.type == Field.TYPE_MESSAGE:
        value.type_name = other
    field.label, field.type, field.type_name = 3, Field.TYPE_MESSAGE, f".p.{message.name}.{entry.name}"


@st.composite
def _set_type(draw: st.DrawFn, field: Any, syntax: str, kind: str, other: str) -> None:
    if kind == "leaf":
        field.type = draw(st.sampled_from(sorted(VALUES)))
        packable = field.type not in (Field.TYPE_STRING, Field.TYPE_BYTES)
        if field.label == 3 and packable and syntax != "editions":
            field.options.packed = draw(st.booleans())
        if field.type == Field.TYPE_STRING and syntax == "editions":
            features = field.options.features
            features.utf8_validation = draw(st.sampled_from([features.VERIFY, features.NONE]))
    elif kind == "enum":
        field.type, field.type_name = Field.TYPE_ENUM, ".p.E"
    elif kind == "group" and syntax == "editions":
        field.type, field.type_name = Field.TYPE_MESSAGE, other
        field.options.features.message_encoding = descriptor_pb2.FeatureSet.DELIMITED
    elif kind == "group" and syntax == "proto2":
        field.type, field.type_name = Field.TYPE_GROUP, other
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, other


@st.composite
def values(draw: st.DrawFn, kind: Any, depth: int = 3) -> Any:
    """A message of a class; what is required may be missing."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw(st.integers(0, 3)) == 0:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            draw(_map(message, field, depth))
        elif field.message_type is not None:
            inner = message_factory.GetMessageClass(field.message_type)
            for _ in range(draw(st.integers(0, 3 if field.is_repeated else 1)) if depth else 0):
                one = draw(values(inner, depth - 1))
                (getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)).CopyFrom(
                    one
                )
        else:
            some = _leaf(field)
            if field.is_repeated:
                getattr(message, field.name).extend(draw(st.lists(some, max_size=4)))
            else:
                setattr(message, field.name, draw(some))
    return message


@st.composite
def _map(draw: st.DrawFn, message: Any, field: Any, depth: int) -> None:
    key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    target = getattr(message, field.name)
    for one in draw(st.lists(VALUES[key.type], max_size=3)):
        if value.message_type is None:
            target[one] = draw(_leaf(value))
        elif depth:
            target[one].CopyFrom(draw(values(message_factory.GetMessageClass(value.message_type), depth - 1)))


def _leaf(field: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([0, 1, -1, 7]) if field.enum_type is not None else VALUES[field.type]


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few of them changed, inserted, removed or repeated."""
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(result)))
        match draw(st.sampled_from(["change", "insert", "cut", "remove", "repeat"])):
            case "change" if at < len(result):
                result[at] = draw(st.integers(0, 255))
            case "insert":
                result[at:at] = draw(st.binary(min_size=1, max_size=3))
            case "cut":
                del result[at:]
            case "remove":
                del result[at : at + 1]
            case "repeat":
                result += result[at:]
    return bytes(result)
