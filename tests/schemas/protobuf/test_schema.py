"""Schemas from texts and descriptors, what they refer to, their limits, and the values of messages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import for_each
from support.protobuf_values import ORDER, files, message_class, values

from kafka_sidecar.schemas.protobuf import files as schema_files
from kafka_sidecar.schemas.protobuf.errors import ProtobufSchemaError
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema
from kafka_sidecar.schemas.protobuf.text import parse_proto

PROTO3 = 'syntax = "proto3"; '
MONEY = PROTO3 + "package shop; message Money { int64 cents = 1; string currency = 2; }"
PAYMENT = PROTO3 + 'package shop; import "shop/money.proto"; message Payment { Money amount = 1; }'


def written(schema: ProtobufSchema, **fields: Any) -> bytes:
    return bytes(GetMessageClass(schema.descriptor)(**fields).SerializeToString())


def in_base64(text: str, name: str = "any.proto") -> str:
    file = parse_proto(text)
    file.name = name
    return base64.b64encode(file.SerializeToString()).decode()


def test_a_schema_is_called_by_its_type_and_has_the_first_one_of_the_file() -> None:
    schema = ProtobufSchema.parse(ORDER)
    assert (schema.name, schema.has_types) == ("shop.Order", True)
    assert schema.record_name(b"", 0, 0) == "shop.Order"
    assert ProtobufSchema.parse(ORDER, message="Order.Item").name == "shop.Order.Item"
    assert ProtobufSchema.parse(ORDER, message="shop.Refund").name == "shop.Refund"
    assert not ProtobufSchema.parse(PROTO3 + "message A { map<int32, int32> m = 1; }").has_types


@pytest.mark.parametrize("reference", [MONEY, in_base64(MONEY)])
def test_imports_lead_to_references_in_either_form(reference: str) -> None:
    references = {"shop/money.proto": reference, "wrong.proto": "which no file imports"}
    for root in (PAYMENT, in_base64(PAYMENT)):
        schema = ProtobufSchema.parse(root, references)
        data = b"\x0a\x05\x08\x07\x12\x01\xff"
        assert str(schema.fault_of(data, 0, len(data))) == "$.amount.currency: text that is not UTF-8 at byte 6"
    descriptor = base64.b64decode(in_base64(PAYMENT))
    assert ProtobufSchema.from_descriptor(descriptor, references).name == "shop.Payment"


def test_what_a_header_names_chooses_the_type() -> None:
    schema = ProtobufSchema.parse(ORDER)
    assert schema.typed(b"\0").name == "shop.Order"
    assert schema.typed(b"\2\2").name == "shop.Refund"
    assert schema.typed(b"\2\2").find_fault(b"\x08\x01", 0, 2) is None
    for wrong in (b"\2\6", b"\2", b"", b"\0\0", b"\1"):
        with pytest.raises(ValueError, match="message indexes that name no type of the file"):
            schema.typed(wrong)


def test_two_schemas_may_declare_the_same_name() -> None:
    one = ProtobufSchema.parse(PROTO3 + "message A { string a = 1; }")
    other = ProtobufSchema.parse(PROTO3 + "message A { int32 a = 1; }")
    assert one.decode(b"\x0a\x01x", 0, 3) == {"a": "x"}
    assert other.decode(b"\x08\x01", 0, 2) == {"a": 1}


CIRCLE = {
    "a.proto": PROTO3 + 'import "b.proto"; message A { B b = 1; }',
    "b.proto": PROTO3 + 'import "a.proto"; message B {}',
}
ROW = {f"{number}.proto": f'{PROTO3} import "{number + 1}.proto";' for number in range(200)}
WRONG: list[tuple[str, Mapping[str, str], str]] = [
    ("message A {", {}, "line 1: "),
    (PROTO3, {}, "declares no message"),
    (PROTO3 + "enum E { A = 0; }", {}, "declares no message"),
    (PAYMENT, {}, "imports 'shop/money.proto', which did not come with the schema"),
    (PAYMENT, {"shop/money.proto": "message {"}, "'shop/money.proto': line 1: a name is expected, not '{'"),
    (PAYMENT, {"shop/money.proto": PROTO3}, "couldn't resolve name 'Money'"),
    (PROTO3 + "message A { B b = 1; }", {}, "couldn't resolve name 'B'"),
    (PROTO3 + "message A { int32 a = 1; int32 b = 1; }", {}, "duplicate field number"),
    (PROTO3 + "message A { int32 a = 1; int32 a = 2; }", {}, "duplicate"),
    (PROTO3 + "message A {} message A {}", {}, "duplicate symbol 'A'"),
    (PROTO3 + 'import "schema.proto"; message A {}', {}, "imports 'schema.proto', which did not come with the schema"),
    (PROTO3 + 'import "a.proto"; message Root {}', CIRCLE, "'b.proto': imports 'a.proto', which imports it"),
    (PROTO3 + 'import "0.proto"; message Root {}', ROW, "more than 100 files import each other in a row"),
    ("message A { option message_set_wire_format = true; extensions 4 to max; }", {}, "is not supported"),
    ("AAAA", {}, "is neither a text in Protobuf's language nor a descriptor of a file"),
    ("A" * 100, {}, "is neither a text in Protobuf's language nor a descriptor of a file"),
    (" " * (1 << 20) + "x", {}, "characters: at most 1048576 are read"),
    (PROTO3 + "".join(f"message B{n} {{}}" for n in range(10_001)), {}, "more than 10000 types"),
]


@for_each(WRONG)
def test_a_wrong_schema_is_one_line(example: tuple[str, Mapping[str, str], str]) -> None:
    text, references, message = example
    with pytest.raises(ProtobufSchemaError) as error:
        ProtobufSchema.parse(text, references)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_a_descriptor_of_any_depth_or_size_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="deep.proto", syntax="proto3")
    message = file.message_type.add(name="A")
    for _ in range(90):
        message = message.nested_type.add(name="A")
    with pytest.raises(ProtobufSchemaError, match="types are nested deeper than 64 levels"):
        ProtobufSchema.from_descriptor(file.SerializeToString())
    monkeypatch.setattr(schema_files, "MAX_FIELDS", 3)
    with pytest.raises(ProtobufSchemaError, match="or 3 fields and numbers of enums"):
        ProtobufSchema.parse(ORDER)
    monkeypatch.setattr(schema_files, "MAX_BYTES", 100)
    with pytest.raises(ProtobufSchemaError, match="the files have more than 100 characters"):
        ProtobufSchema.parse(ORDER)


def why_wrong(descriptor: bytes) -> str:
    try:
        ProtobufSchema.from_descriptor(descriptor).find_fault(b"\x0a\x01x", 0, 3)
    except ProtobufSchemaError as error:
        return str(error)
    return ""


@given(st.binary(max_size=300))
def test_any_bytes_are_a_schema_or_a_wrong_one(data: bytes) -> None:
    assert "\n" not in why_wrong(data)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_descriptor_is_a_schema_or_a_wrong_one(data: st.DataObject) -> None:
    whole = bytearray(data.draw(files()).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    assert "\n" not in why_wrong(bytes(whole))


# Values

KINDS = """syntax = "proto3";
package k;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto"; import "google/protobuf/any.proto"; import "google/type/money.proto";
message All {
  int64 i = 1; double d = 2; string s = 3; bytes b = 4; bool t = 5; State e = 6; repeated int32 l = 7;
  map<int64, Part> m = 8;
  Part p = 9; optional int32 o = 10; oneof how { string card = 11; Part part = 12; }
  google.protobuf.Timestamp at = 13; google.protobuf.Duration took = 14; google.protobuf.StringValue w = 15;
  google.protobuf.Struct st = 16; google.protobuf.Value v = 17; google.protobuf.ListValue lv = 18;
  google.protobuf.NullValue n = 19;
  google.protobuf.Any any = 20; repeated google.protobuf.Timestamp times = 21; google.type.Money money = 22;
}
message Part { string s = 1; repeated Part parts = 2; }
enum State { NEW = 0; SENT = 1; }
"""
DEFAULTS: dict[str, Any] = {
    "i": 0, "d": 0.0, "s": "", "b": b"", "t": False, "e": "NEW", "l": [], "m": {}, "n": None, "times": [],
}  # fmt: skip


def test_a_field_without_presence_is_always_there_and_another_one_only_if_it_was_written() -> None:
    schema = ProtobufSchema.parse(KINDS)
    assert schema.decode(b"", 0, 0) == DEFAULTS
    assert schema.decode(b"\x50\x00\x5a\x00", 0, 4) == {**DEFAULTS, "o": 0, "card": ""}


def test_values_are_those_that_python_has_for_them() -> None:
    schema = ProtobufSchema.parse(KINDS)
    message = GetMessageClass(schema.descriptor)(
        i=2**40, d=1.5, s="\u00e9", b=b"\xff", t=True, e=1, l=[1, -1], o=3, card="4"
    )
    message.m[-7].s = "x"
    message.p.parts.add(s="y")
    message.at.seconds, message.at.nanos = -1, 500_000_999
    message.took.seconds, message.took.nanos = -3, -500_000_000
    message.w.value = "w"
    message.st.update({"a": [1, None, {"b": True}], "c": "d"})
    message.v.string_value = "v"
    message.lv.extend([1, "x"])
    message.any.type_url, message.any.value = "t/k.Part", b"\x0a\x01x"
    message.times.add(seconds=0)
    message.money.units = 5
    data = message.SerializeToString()
    part = {"s": "", "parts": []}
    assert schema.decode(b"12" + data + b"3", 2, 2 + len(data)) == {
        "i": 2**40, "d": 1.5, "s": "\u00e9", "b": b"\xff", "t": True, "e": "SENT", "l": [1, -1], "o": 3, "card": "4",
        "m": {-7: {**part, "s": "x"}}, "p": {"s": "", "parts": [{**part, "s": "y"}]},
        "at": datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC), "took": timedelta(seconds=-3.5), "w": "w",
        "st": {"a": [1.0, None, {"b": True}], "c": "d"}, "v": "v", "lv": [1.0, "x"], "n": None,
        "any": {"type_url": "t/k.Part", "value": b"\x0a\x01x"}, "times": [datetime(1970, 1, 1, tzinfo=UTC)],
        "money": {"currency_code": "", "units": 5, "nanos": 0},
    }  # fmt: skip


def test_unknown_numbers_of_enums_unknown_fields_and_old_texts_are_no_faults() -> None:
    schema = ProtobufSchema.parse(KINDS)
    assert schema.decode(b"\x30\x63\xf8\x07\x01", 0, 5)["e"] == 99
    old = ProtobufSchema.parse(
        'syntax = "proto2"; message A { optional string s = 1; extensions 5; } extend A { optional string t = 5; }'
    )
    assert old.decode(b"\x0a\x02a\xff\x2a\x01x", 0, 7) == {"s": "a\ufffd", "[t]": "x"}
    assert old.decode(b"", 0, 0) == {}


FAR = 10**12
FAULTS: list[tuple[dict[str, Any], bytes, str]] = [
    ({}, b"\x1a\x01\xff", "$.s: text that is not UTF-8 at byte 2"),
    ({"at": {"seconds": FAR}}, b"", "$.at: a time that is not in the years 1 to 9999"),
    ({"times": [{}, {"seconds": -FAR}]}, b"", "$.times: a time that is not in the years 1 to 9999"),
    ({"took": {"seconds": 2**62}}, b"", "$.took: a duration of too many days"),
]


@for_each(FAULTS)
def test_what_is_no_value_says_why(example: tuple[dict[str, Any], bytes, str]) -> None:
    fields, data, message = example
    schema = ProtobufSchema.parse(KINDS)
    data = data or written(schema, **fields)
    with pytest.raises(ValueError) as error:
        schema.decode(data, 0, len(data))
    assert str(error.value) == message


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_value_is_that_of_googles_json(data: st.DataObject) -> None:
    file = data.draw(files())
    kind, schema = message_class(file, "p.M0"), ProtobufSchema.from_descriptor(file.SerializeToString())
    message = data.draw(values(kind))
    if not message.IsInitialized():
        return
    bytes_ = message.SerializeToString()
    expected = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    assert shape(schema.decode(bytes_, 0, len(bytes_))) == shape(expected)


def shape(value: Any) -> Any:
    """Names and numbers of values: Google's JSON has other forms of some of them."""
    if isinstance(value, dict):
        return {str(key).lower() if isinstance(key, bool) else str(key): shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else None
