"""What is accepted as a message: as Google's library decides, for any schema and any bytes."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import for_each
from support.protobuf_values import ORDER, damaged, files, message_class, values

from kafka_sidecar.codec.records import NewRecord, Records, batches, build_batch
from kafka_sidecar.schemas.protobuf import schema as protobuf_schema
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema

WIDE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
SCHEMA = ProtobufSchema.parse(ORDER)
NODE = (
    'syntax = "proto2"; message Node { optional Node next = 1; optional group Inner = 2 { optional Node node = 1; } }'
)
REQUIRED = """syntax = "proto2";
message Order { required Item item = 1; map<int32, Item> by = 2; }
message Item { required string sku = 1; required int32 n = 2; optional Item part = 3; }"""


def fault_of(schema: ProtobufSchema, data: bytes, max_depth: int = 100, framed: bool = False) -> str | None:
    found = schema.fault_of(data, 0, len(data), max_depth, framed)
    return None if found is None else str(found)


def accepted(kind: Any, data: bytes) -> bool:
    """Whether Google's library parses bytes, and they have all that is required."""
    try:
        return bool(kind.FromString(data).IsInitialized())
    except DecodeError:
        return False


def records_of(*messages: bytes | None) -> Records:
    (batch,) = batches(build_batch([NewRecord(message) for message in messages]))
    return batch.records(1 << 24)


@WIDE
@given(st.data())
def test_what_is_accepted_is_what_googles_library_accepts(data: st.DataObject) -> None:
    file = data.draw(files())
    kind, schema = message_class(file, "p.M0"), ProtobufSchema.from_descriptor(file.SerializeToString())
    written = data.draw(values(kind)).SerializePartialToString()
    examples = written, data.draw(damaged(written)), data.draw(damaged(written)), data.draw(st.binary(max_size=20))
    for one in examples:
        assert (fault_of(schema, one) is None) == accepted(kind, one), one.hex()
    rejected = [index for index, _ in schema.find_faults(records_of(*examples, None), False, 0, 100)]
    assert rejected == [index for index, one in enumerate(examples) if not accepted(kind, one)]


def test_googles_library_takes_the_number_0_for_a_field_where_a_type_has_none() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="empty.proto", syntax="proto3")
    file.message_type.add(name="Empty")
    assert accepted(message_class(file, "Empty"), b"\0\1")
    schema = ProtobufSchema.from_descriptor(file.SerializeToString())
    assert fault_of(schema, b"\0\1") == "$: what is no tag of a field at byte 0"


FAULTS = [
    (b"\x08", "$.id: ends too early at byte 1"),
    (b"\x08" + b"\xff" * 10 + b"\1", "$.id: a number of too many bits at byte 1"),
    (b"\x22\x05abc", "$.digest: ends too early at byte 5"),
    (b"\x22\xff\xff\xff\xff\x0f", "$.digest: a length of too many bits at byte 1"),
    (b"\x2a\x03\x0a\x01\xff", "$.notes{}: text that is not UTF-8 at byte 4"),
    (b"\x32\x00\x32\x03\x0a\x01\xff", "$.items[1].sku: text that is not UTF-8 at byte 6"),
    (b"\x32\x05\x1a\x03\x0a\x01\xff", "$.items[0].part_of.sku: text that is not UTF-8 at byte 6"),
    (b"\x4a\x03\x02\x04\x80", "$.ratings[2]: ends too early at byte 5"),
    (b"\x48\x02\x48\x80", "$.ratings[1]: ends too early at byte 4"),
    (b"\0\1", "$: what is no tag of a field at byte 0"),
    (b"\x08\1\0", "$: what is no tag of a field at byte 2"),
    (b"\x08\1\x80", "$: ends too early at byte 3"),
    (b"\x08\1\x0c", "$: the end of a group that has not begun at byte 2"),
    (b"\x0e", "$: what is no tag of a field at byte 0"),
    (b"\x80\x80\x80\x80\x80\x01", "$: what is no tag of a field at byte 0"),
    (b"\x0c", "$: the end of a group that has not begun at byte 0"),
    (b"\x9b\x06\x08\x01", "$: ends too early at byte 4"),
]


@for_each(FAULTS)
def test_a_fault_names_its_path_rule_and_position(example: tuple[bytes, str]) -> None:
    data, fault = example
    assert fault_of(SCHEMA, data) == fault
    assert not accepted(GetMessageClass(SCHEMA.descriptor), data)


def test_unknown_fields_wrong_wire_types_and_numbers_of_open_enums_are_accepted() -> None:
    for data in (
        b"",
        b"\xa0\x06\x01",
        b"\x0a\x01x",
        b"\x18\x63",
        b"\x9b\x06\x08\x01\x9c\x06",
        b"\x18\xff\xff\xff\xff\x0f",
    ):
        assert fault_of(SCHEMA, data) is None


def test_what_the_schema_does_not_have_can_be_rejected() -> None:
    strict = ProtobufSchema.parse(ORDER, reject_unknown=True)
    closed = 'syntax = "proto2"; message M { repeated E e = 1 [packed = true]; } enum E { A = -1; B = 7; }'
    strict_enum = ProtobufSchema.parse(closed, reject_unknown=True)
    unknown = "a field that the schema does not have"
    assert fault_of(strict, b"\x08\x01\xa0\x06\x01") == f"$: {unknown} at byte 2"
    assert fault_of(strict, b"\x32\x02\x20\x01") == f"$.items[0]: {unknown} at byte 2"
    assert fault_of(strict, b"\x0a\x01x") == f"$: {unknown} at byte 0"
    assert fault_of(strict, b"\x18\x63") is None
    good = b"\x0a\x0b\x07" + b"\xff" * 9 + b"\x01"
    assert fault_of(strict_enum, good) is None
    assert fault_of(strict_enum, good + b"\x08\x06") == "$.e[2]: a number that the enum does not have at byte 14"
    assert fault_of(ProtobufSchema.parse(closed), good + b"\x08\x06") is None


def nested(levels: int, group: bool) -> bytes:
    data = b""
    for _ in range(levels):
        size = len(data)
        length = bytes([size & 0x7F | 0x80, size >> 7]) if size > 127 else bytes([size])
        data = b"\x13" + data + b"\x14" if group else b"\x0a" + length + data
    return data


@pytest.mark.parametrize("group", [False, True])
def test_messages_are_nested_as_deeply_as_googles_library_reads_them(group: bool) -> None:
    text = (
        NODE.replace("optional Node node = 1;", "optional Node node = 1; optional Inner inner = 2;") if group else NODE
    )
    schema = ProtobufSchema.parse(text.replace("Inner inner = 2", "Inner inner = 3"))
    kind = GetMessageClass(schema.descriptor)
    for levels in (99, 100, 101, 500):
        data = nested(levels, group)
        assert (fault_of(schema, data) is None) == accepted(kind, data) == (levels <= 100)
        assert "nested too deeply" in (fault_of(schema, data, 3) or "")


@pytest.mark.bulk
def test_groups_that_never_end_and_a_million_bytes_of_anything_end() -> None:
    for data in (
        b"\x13" * 1_000_000,
        b"\x9b\x06" * 500_000,
        b"\x0a" * 1_000_000,
        b"\x0a\x00" * 50_000,
        b"\xff" * 1_000_000,
    ):
        fault_of(ProtobufSchema.parse(NODE), data)


def test_what_is_required_may_come_in_another_occurrence_of_the_message() -> None:
    schema = ProtobufSchema.parse(REQUIRED)
    kind = GetMessageClass(schema.descriptor)
    sku, number, both = b"\x0a\x03\x0a\x01x", b"\x0a\x02\x10\x05", b"\x0a\x05\x0a\x01x\x10\x05"
    by = b"\x12\x07\x08\x01\x12\x03\x0a\x01x"
    for data, fault in [
        (both, None),
        (sku + number, None),
        (sku, "$.item.n: is required at byte 5"),
        (b"", "$.item: is required at byte 0"),
        (sku + b"\x08", "$.item.n: is required at byte 5"),
        (sku + number + b"\x08", "$: ends too early at byte 10"),
        (both + by, "$.by{}.n: is required at byte 16"),
        (both + by + b"\x12\x09\x08\x01\x12\x05\x0a\x01x\x10\x05", None),
    ]:
        assert accepted(kind, data) == (fault is None)
        found = fault_of(schema, data)
        assert found == fault or (data == sku + b"\x08" and found == "$: ends too early at byte 6"), data.hex()


def test_what_only_seems_to_be_missing_hides_no_later_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_schema, "_SUSPECTS", 10)
    schema = ProtobufSchema.parse(REQUIRED)
    whole = b"\x0a\x03\x0a\x01x\x0a\x02\x10\x05"
    messages = [*[whole] * 35, b"\xff", *[whole] * 35, b""]
    found = list(schema.find_faults(records_of(*messages), False, 0, 100))
    assert [index for index, _ in found] == [35, 71]


def test_a_type_has_at_most_63_required_fields() -> None:
    text = 'syntax = "proto2"; message M { %s }'
    most = "".join(f"required int32 f{number} = {number};" for number in range(1, 64))
    schema = ProtobufSchema.parse(text % most)
    kind = GetMessageClass(schema.descriptor)
    whole = kind(**{f"f{number}": 1 for number in range(1, 64)}).SerializeToString()
    assert fault_of(schema, whole) is None
    assert fault_of(schema, whole[:-3]) == f"$.f63: is required at byte {len(whole) - 3}"
    with pytest.raises(ValueError, match="Too many required fields"):
        ProtobufSchema.parse(text % (most + "required int32 f64 = 64;"))


INDEXES = [
    (b"\0\x08\x01", "shop.Order", None),
    (b"\2\0\x08\x01", "shop.Order", None),
    (b"\2\2\x08\x01", "shop.Refund", None),
    (b"\4\0\2\x0a\x01x", "shop.Order.Item", None),
    (b"\4\0\2\x0a\x01\xff", "shop.Order.Item", "$.sku: text that is not UTF-8 at byte 5"),
    (b"\2\4", None, "$: message indexes that the schema does not have at byte 0"),
    (b"\2\1", None, "$: message indexes that the schema does not have at byte 0"),
    (b"\1", None, "$: message indexes that the schema does not have at byte 0"),
    (b"\4\2\0", None, "$: message indexes that the schema does not have at byte 0"),
    (b"\xfe" + b"\xff" * 8 + b"\x01" + b"\0" * 9, None, "$: message indexes that the schema does not have at byte 0"),
    (b"\x80", None, "$: ends too early at byte 1"),
    (b"", None, "$: ends too early at byte 0"),
]


@for_each(INDEXES)
def test_message_indexes_choose_the_type(example: tuple[bytes, str | None, str | None]) -> None:
    data, name, fault = example
    assert fault_of(SCHEMA, data, framed=True) == fault
    if name is not None:
        assert SCHEMA.record_name(data, 0, len(data), framed=True) == name
    found = [why for _, why in SCHEMA.find_faults(records_of(b"12345" + data), False, 5, 100, framed=True)]
    assert found == ([] if fault is None else [fault])


def test_a_chosen_type_is_the_only_one() -> None:
    schema = ProtobufSchema.parse(ORDER, message="Refund")
    assert schema.name == "shop.Refund"
    assert fault_of(schema, b"\2\2\x08\x01", framed=True) is None
    assert fault_of(schema, b"\0\x08\x01", framed=True) == "$: another message than shop.Refund at byte 0"
    assert fault_of(schema, b"\x08\x01") is None


def test_message_indexes_count_with_the_entries_of_maps_or_without() -> None:
    text = """syntax = "proto3";
message M { map<int32, int32> m = 1; message A { string s = 1; } message B { int32 i = 1; } }"""
    schema = ProtobufSchema.parse(text)
    text_of_a = b"\x0a\x01x"
    assert fault_of(schema, b"\4\0\2" + text_of_a, framed=True) is None  # by descriptors: entry, A, B
    assert fault_of(schema, b"\4\0\0" + text_of_a, framed=True) is None  # by texts: A, B
    assert fault_of(schema, b"\4\0\4\x08\x01", framed=True) is None
    bad = b"\4\0\2\x0a\x01\xff"
    assert fault_of(schema, bad, framed=True) in (None, "$.s: text that is not UTF-8 at byte 5")
    assert schema.decode(b"\4\0\2" + text_of_a, 0, 6, framed=True) == {"s": "x"}
