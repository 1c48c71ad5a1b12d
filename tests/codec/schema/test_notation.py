"""The notation itself, with a message that has every wire type, and bytes worked out by hand."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kafka_sidecar.codec.errors import CodecError, TruncatedError, UnsupportedVersionError
from kafka_sidecar.codec.message import (
    Message,
    Struct,
    decode,
    encode,
    field_reader,
    field_writer,
    first_version,
    replace_fields,
    skipper,
    span,
)
from kafka_sidecar.codec.schema.fields import (
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    record_set,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)

ID = bytes(range(16))


class Leader(Struct):
    epoch: int = int16("0+", default=-1)


class Point(Struct):
    x: int = int8("0+")
    label: str | None = string("1+", nullable="1+")


class Everything(Message, versions="0-2", flexible="1+"):
    flag: bool = boolean("0+", default=True)
    small: int = int8("0+")
    short: int = int16("0+")
    port: int = uint16("0+")
    count: int = int32("0+")
    size: int = uint32("0+")
    offset: int = int64("0+", default=-1)
    ratio: float = float64("0+")
    topic_id: bytes = uuid("0+")
    name: str | None = string("0+", nullable="1+", default="anonymous")
    key: bytes | None = binary("0+", nullable="0+", default=None)
    records: bytes | memoryview | None = record_set("0+", nullable="0+")
    ids: tuple[bytes, ...] = array(uuid, "0+")
    names: tuple[str, ...] | None = array(string, "0+", nullable="0+")
    flags: tuple[bool, ...] = array(boolean, "0+")
    ratios: tuple[float, ...] = array(float64, "0+")
    point: Point = struct(Point, "0+")
    maybe: Point | None = struct(Point, "0+", nullable="0+")
    points: tuple[Point, ...] = array(Point, "0+")
    leader: Leader = struct(Leader, "2+", tag=1)
    spare: Leader | None = struct(Leader, "2+", nullable="2+", tag=0)
    late: str = string("1+", tag=7, tagged="2+")
    fixed: str = string("1+", flexible="none")


FULL = Everything(
    flag=False, small=-1, short=-2, port=65535, count=-3, size=2**32 - 1, offset=2**40, ratio=1.5, topic_id=ID,
    name="n", key=b"k", records=b"r", ids=(ID,), names=("a", ""), flags=(True, False), ratios=(0.5,), point=Point(x=1),
    maybe=Point(x=2), points=(Point(x=3), Point(x=4)), leader=Leader(epoch=5), spare=Leader(epoch=6), late="late",
    fixed="fixed", unknown_tags=((9, b"nine"), (2, b"two")),
)  # fmt: skip
FIXED_PART = "00 ff fffe ffff fffffffd ffffffff 0000010000000000 3ff8000000000000" + ID.hex()
IN_VERSION_0 = (
    FIXED_PART
    + (
        "0001 6e  00000001 6b  00000001 72"  # name, key, records
        "00000001" + ID.hex() + "00000002 0001 61 0000  00000002 01 00  00000001 3fe0000000000000"  # the arrays
        "01  01 02  00000002 03 04"  # point, maybe, points
    )
)
IN_VERSION_2 = (
    FIXED_PART
    + (
        "02 6e  02 6b  02 72"
        "02" + ID.hex() + "03 02 61 01  03 01 00  02 3fe0000000000000"
        "01 01 00  01 02 01 00  03 03 01 00 04 01 00"  # each point: x, empty label, no tags
        "0005 6669786564"  # a string that is not compact in a flexible version
        "05  00 04 01 0006 00  01 03 0005 00  02 03 74776f  07 05 05 6c617465  09 04 6e696e65"  # tags in order
    )
)


def test_fields_are_written_one_after_the_other_before_the_flexible_versions() -> None:
    assert encode(FULL, 0) == bytes.fromhex(IN_VERSION_0)


def test_a_flexible_version_has_compact_lengths_and_sorted_tags() -> None:
    assert encode(FULL, 2) == bytes.fromhex(IN_VERSION_2)


def test_every_wire_type_is_decoded_as_it_was_encoded() -> None:
    for version in range(3):
        data = encode(FULL, version)
        value, end = decode(Everything, data, version)
        assert end == len(data) == skipper(Everything, version)(data, 0)
        assert encode(value, version) == data
    sorted_tags = tuple(sorted(FULL.unknown_tags))
    assert decode(Everything, encode(FULL, 2), 2)[0] == replace_fields(FULL, unknown_tags=sorted_tags)


def test_null_and_empty_are_different() -> None:
    nothing = replace_fields(FULL, key=None, records=None, names=None, maybe=None, spare=None)
    empty = replace_fields(FULL, key=b"", records=b"", names=(), maybe=Point(), spare=Leader())
    for version in range(3):
        for value in (nothing, empty):
            found, _ = decode(Everything, encode(value, version), version)
            assert (found.key, found.records, found.names, found.maybe) == (
                value.key,
                value.records,
                value.names,
                value.maybe,
            )
    assert decode(Everything, encode(empty, 2), 2)[0].spare == Leader()
    assert decode(Everything, encode(nothing, 2), 2)[0].spare is None


def test_a_field_that_is_not_in_a_version_has_its_default() -> None:
    found, _ = decode(Everything, encode(FULL, 0), 0)
    assert (found.leader, found.spare, found.late, found.fixed) == (Leader(), None, "", "")
    assert found.point.label == ""
    assert found.unknown_tags == ()


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    plain = encode(Everything(leader=Leader(epoch=-1), spare=None, late=""), 2)
    assert plain[-1:] == b"\0"
    assert plain == encode(Everything(), 2)


def test_a_field_can_be_tagged_in_some_versions_only() -> None:
    assert span(Everything, "late", 1)(encode(FULL, 1), 0)[1] > 0
    with pytest.raises(UnsupportedVersionError):
        span(Everything, "late", 2)
    assert field_writer(Everything, "late", 2)("late") == b"\x05late"
    assert field_reader(Everything, "late", 2)(b"\x05late", 0) == ("late", 5)


def test_records_are_decoded_as_a_view_and_other_fields_are_copied() -> None:
    data = encode(FULL, 2)
    found, _ = decode(Everything, memoryview(data), 2)
    assert isinstance(found.records, memoryview)
    assert found.records.obj is data
    assert (type(found.key), type(found.topic_id), type(found.name)) == (bytes, bytes, str)


def test_strings_that_are_not_utf_8_are_encoded_to_the_same_bytes() -> None:
    for raw in (b"\xff\xfe", b"\xed\xa0\x80", b"a\x80b", b"\xc0\x80", b"\xf5"):
        data = bytes([len(raw) + 1]) + raw
        name, end = field_reader(Everything, "name", 2)(data, 0)
        assert (end, field_writer(Everything, "name", 2)(name)) == (len(data), data)


def test_a_message_is_immutable_hashable_and_equal_only_to_its_own_class() -> None:
    with pytest.raises(AttributeError):
        FULL.count = 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        FULL.typo = 1  # type: ignore[attr-defined]
    assert hash(Point(x=1)) == hash(Point(x=1))
    assert {Point(x=1), Point(x=1), Point(x=2)} == {Point(x=1), Point(x=2)}
    assert Leader(epoch=1) == Leader(epoch=1)
    assert Leader(epoch=1) != Leader(epoch=2)
    assert Leader(epoch=0) not in [(0, ()), Point()]
    assert copy.deepcopy(FULL) == FULL == pickle.loads(pickle.dumps(FULL))
    assert repr(Point(x=1)) == "Point(x=1, label='', unknown_tags=())"


def test_replacing_fields_returns_a_copy_and_rejects_unknown_names() -> None:
    assert replace_fields(Point(x=1, label="a"), x=2) == Point(x=2, label="a")
    with pytest.raises(ValueError, match="typo"):
        replace_fields(Point(), typo=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"small": 128}, {"short": -(2**15) - 1}, {"port": -1}, {"count": 2**31}, {"size": 2**32}, {"offset": 2**63},
        {"topic_id": b"short"}, {"topic_id": bytes(17)}, {"ids": (b"short",)}, {"flags": None},
        {"count": "1"}, {"count": None}, {"count": 1.5}, {"name": 1}, {"name": "\ud800"}, {"ids": None},
        {"names": (None,)}, {"point": None}, {"points": (None,)}, {"points": (Leader(),)}, {"records": "text"},
        {"ratios": ("x",)}, {"key": 3}, {"fixed": "x" * 32768}, {"unknown_tags": ((-1, b""),)},
        {"unknown_tags": ((2**35, b""),)}, {"unknown_tags": (1,)}, {"leader": None},
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_outside_the_range_of_its_type_raises_codec_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match=r"Everything v2|does not fit"):
        encode(replace_fields(FULL, **wrong), 2)


def test_null_in_a_version_that_does_not_allow_it_is_rejected_by_encoder_and_decoder() -> None:
    with pytest.raises(CodecError):
        encode(replace_fields(FULL, name=None), 0)
    with pytest.raises(CodecError, match="name is null"):
        field_reader(Everything, "name", 0)(b"\xff\xff", 0)
    assert field_reader(Everything, "name", 1)(b"\0", 0) == (None, 1)


@pytest.mark.parametrize(
    ("field", "version", "data"),
    [
        ("name", 0, "fffe"),  # length -2
        ("key", 0, "80000000"),
        ("names", 0, "fffffffe"),
        ("points", 0, "ffffffff"),  # null
        ("points", 1, "00"),
        ("key", 1, "ffffffffff01"),  # a varint of six bytes
        ("names", 1, "808080808080"),
    ],
)
def test_an_invalid_length_is_rejected(field: str, version: int, data: str) -> None:
    with pytest.raises(CodecError) as refused:
        field_reader(Everything, field, version)(bytes.fromhex(data) + bytes(40), 0)
    assert not isinstance(refused.value, TruncatedError)


@pytest.mark.parametrize("field", ["names", "ids", "flags", "ratios", "points", "key", "records", "name"])
def test_an_array_count_larger_than_the_bytes_is_rejected_before_allocation(field: str) -> None:
    for version, huge in ((0, "7fffffff"), (1, "feffffff0f"), (1, "ffffffff7f")):
        if field == "name":  # a longer string is invalid whether its bytes are there or not
            huge = "7fff" if version == 0 else "808002"
        with pytest.raises(TruncatedError):
            field_reader(Everything, field, version)(bytes.fromhex(huge) + bytes(100), 0)
        find = span(Everything, field, version)
        start, _ = find(encode(FULL, version), 0)
        with pytest.raises(TruncatedError):
            find(encode(FULL, version)[:start] + bytes.fromhex(huge) + bytes(100), 0)


def test_a_known_tagged_field_with_trailing_bytes_is_rejected() -> None:
    body = encode(Everything(), 2)[:-1]
    assert decode(Everything, body + bytes.fromhex("01 01 03 0005 00"), 2)[0].leader == Leader(epoch=5)
    with pytest.raises(CodecError, match="1 bytes too many"):
        decode(Everything, body + bytes.fromhex("01 01 04 0005 00 00"), 2)
    with pytest.raises(CodecError):
        decode(Everything, body + bytes.fromhex("01 01 02 0005 00"), 2)


def test_a_field_that_is_not_in_the_version_raises_unsupported_version() -> None:
    for ask in (skipper, span, field_reader, field_writer):
        with pytest.raises(UnsupportedVersionError):
            ask(Everything, *((0, "late") if ask is skipper else ("late", 0)))
    with pytest.raises(UnsupportedVersionError):
        skipper(Everything, 2, before="leader")
    with pytest.raises(UnsupportedVersionError):
        field_reader(Everything, "typo", 2)


def test_the_first_version_of_a_field_is_its_declared_one() -> None:
    assert (first_version(Point, "x"), first_version(Point, "label")) == (0, 1)
    with pytest.raises(ValueError, match="Point has no field typo"):
        first_version(Point, "typo")


def test_the_first_flexible_version_is_the_declared_one() -> None:
    class Old(Message, versions="0-9", flexible="none"):
        """Never flexible."""

    assert Everything.declaration_.first_flexible == 1
    with pytest.raises(ValueError, match="Old has no flexible version"):
        _ = Old.declaration_.first_flexible


def test_a_struct_that_is_part_of_no_message_or_of_two_is_rejected() -> None:
    with pytest.raises(TypeError, match="part of another message"):

        class Thief(Message, versions="0-9", flexible="none"):
            point: Point = struct(Point, "0+")

    class Orphan(Struct):
        x: int = int8("0+")

    with pytest.raises(TypeError, match="not part of any message"):
        encode(Orphan(), 0)
