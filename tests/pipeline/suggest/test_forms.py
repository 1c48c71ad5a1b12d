"""Forms of keys and values, recognised one by one, and formats of many."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.pipeline.suggest.formats import Format, format_of
from kafka_sidecar.pipeline.suggest.forms import Form, id_in_header, is_protobuf, recognise
from kafka_sidecar.pipeline.suggest.summary import Part, Place
from pipeline.suggest.documents import JSON

PREFIX = b"\0\0\0\0\x07"
GUID = UUID(int=5)


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (None, Form.NULL),
        (b"", Form.EMPTY),
        (b'{"a": 1}', Form.JSON),
        (b" [1]\n", Form.JSON),
        (b"17", Form.SCALAR),
        (b'"text"', Form.JSON),
        (b"null", Form.SCALAR),
        (b"{broken", Form.TEXT),
        (b"[" * 129 + b"]" * 129, Form.TEXT),  # deeper than policies allow
        (b"[" * 128 + b"]" * 128, Form.JSON),
        (b"1e999", Form.TEXT),  # no parser represents it
        ("grüße".encode(), Form.TEXT),
        (b"a\x01", Form.BYTES),
        (b"\xff\xfe", Form.BYTES),
        (b"Obj\x01rest", Form.CONTAINER),
        (PREFIX + b'{"a": 1}', Form.PREFIX_JSON),
        (PREFIX + b"\0\x08\x01", Form.PREFIX_PROTOBUF),
        (PREFIX + b"\x02\x04\x08\x01", Form.PREFIX_PROTOBUF),
        (PREFIX + b"\x0cabc", Form.PREFIX_AVRO),
        (PREFIX, Form.PREFIX_AVRO),
        (PREFIX + b"\x0ahello", Form.PREFIX_AVRO),  # a text of five letters, not five indexes and an empty message
        (PREFIX + b"\x0420", Form.PREFIX_AVRO),
        (b"\0\0\0\0\0abc", Form.BYTES),  # no registry gives the id 0
        (b"\0\0\0", Form.BYTES),
    ],
)
def test_a_form_is_recognised(data: bytes | None, form: Form) -> None:
    assert recognise(data).form is form


@pytest.mark.parametrize(
    ("header", "named"),
    [
        (b"\1" + GUID.bytes, str(GUID)),
        (b"\1" + GUID.bytes + b"\2\2", str(GUID)),  # with the indexes of a Protobuf message
        (b"\0\0\0\0\x07", "7"),
        (b"\2\0\0\0\x07", None),
        (b"", None),
        (GUID.bytes, None),
    ],
)
def test_an_id_in_a_header_is_a_number_or_a_guid(header: bytes, named: str | None) -> None:
    assert id_in_header(header) == named
    assert recognise(b"{}", header).form is (Form.HEADER_JSON if named else Form.JSON)


@given(st.binary())
def test_no_bytes_are_too_much(data: bytes) -> None:
    for framed in (data, PREFIX + data):
        found = recognise(framed)
        assert (found.text is None) == (found.form not in (Form.TEXT, Form.SCALAR))
    recognise(data, data)
    is_protobuf(data, with_indexes=True)


@given(JSON)
def test_what_is_json_is_recognised_with_its_value(value: object) -> None:
    found = recognise(orjson.dumps(value))
    assert found.form in (Form.JSON, Form.SCALAR)
    assert found.value == value


def format_for(values: Iterable[bytes | None], tolerance: float = 0.0) -> Format:
    part = Part()
    for offset, value in enumerate(values):
        part.add(value, None, Place(0, offset))
    return format_of(part, tolerance)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([None], "null"),
        ([b""], "empty"),
        ([b"{}", b"1", None], "JSON"),
        ([b"1", b"2"], "text"),
        ([b'"a"', b'"b"'], "JSON"),
        ([b"1", b"a", b""], "text"),
        ([b"{}", b"a"], "mixed"),
        ([b"a", b"\xff"], "bytes"),
        ([struct.pack(">i", n) for n in (1, 2, 300)], "int32"),
        ([struct.pack(">q", n) for n in (1, 2, 300)], "int64"),
        ([struct.pack(">q", 10**9 + n) for n in range(1000)], "int64"),
        ([struct.pack(">q", 1_760_000_000_000 + n) for n in range(100)], "int64"),
        ([PREFIX + bytes([0x80 + n, 0x81, 2]) for n in range(100)], "Avro"),
        ([b"abcd", b"1234"], "text"),
        ([PREFIX + b"\0\x08\x01", PREFIX + b"\x0cabc"], "Avro"),  # one of them only looks like Protobuf
        ([PREFIX + b"\0\x08\x01"], "int64"),  # eight bytes
        ([PREFIX + b"\0\x08\x01\x08\x02"], "Protobuf"),
    ],
)
def test_a_format_is_what_all_of_them_have_in_common(values: list[bytes | None], name: str) -> None:
    assert format_for(values).name == name


def test_a_tolerance_leaves_out_the_few() -> None:
    values = [*[b'{"a": 1}'] * 999, b"oops"]
    assert format_for(values).name == "mixed"
    found = format_for(values, 0.001)
    assert (found.name, found.count, found.of) == ("JSON", 999, 1000)
    assert {form: [str(one) for one in tally.first] for form, tally in found.exceptions.items()} == {"text": ["0:999"]}
