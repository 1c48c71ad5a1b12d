"""The forms that a key or a value can have, recognised from its bytes.

Avro's bytes have no mark of their own: what has a schema's id, and is neither JSON nor Protobuf, is called Avro.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from kafka_sidecar.codec.json.syntax import find_fault

ID_SIZE = 5  # a 0 and four bytes
CONTAINER = b"Obj\x01"
MAX_JSON_DEPTH = 128  # as the policies have it by default
MAX_FIELDS = 10_000  # of a Protobuf message that are looked at
MAX_INDEXES, MAX_INDEX = 4, 32  # where a message is in its schema's file: letters of a text are larger
GUID_SIZE = 17
_MAY_BE_JSON = frozenset(b'{["tfn-0123456789 \t\r\n')
_FORBIDDEN = frozenset(range(32)) - frozenset(b"\t\r\n") | {127}
_CONTROLS = bytes(_FORBIDDEN)


class Form(StrEnum):
    """One record's key or value."""

    NULL = "null"
    EMPTY = "empty"
    JSON = "JSON"
    SCALAR = "number or word"  # JSON, or a text that means just itself
    TEXT = "text"
    BYTES = "bytes"
    CONTAINER = "Avro container"
    PREFIX_JSON = "JSON by id"
    PREFIX_AVRO = "Avro by id"
    PREFIX_PROTOBUF = "Protobuf by id"
    HEADER_JSON = "JSON by id in a header"
    HEADER_AVRO = "Avro by id in a header"
    HEADER_PROTOBUF = "Protobuf by id in a header"


BY_PREFIX = frozenset({Form.PREFIX_JSON, Form.PREFIX_AVRO, Form.PREFIX_PROTOBUF})
BY_HEADER = frozenset({Form.HEADER_JSON, Form.HEADER_AVRO, Form.HEADER_PROTOBUF})


class Recognised(NamedTuple):
    """What some bytes are."""

    form: Form
    id: str | None = None  # of the schema: a number or a GUID
    value: Any = None  # of JSON
    text: str | None = None  # of TEXT and SCALAR


NULL, EMPTY = Recognised(Form.NULL), Recognised(Form.EMPTY)


def recognise(data: bytes | None, id_header: bytes | None = None) -> Recognised:
    """The form of a key or a value, with the header for its schema's id if the record has that.

    >>> recognise(b'{"a": 1}').form.value, recognise(b"order-1").form.value, recognise(b"\\0\\0\\0\\0\\x07\\2a").id
    ('JSON', 'text', '7')
    """
    if data is None:
        return NULL
    if id_header is not None and (named := id_in_header(id_header)) is not None:
        return _by_header(data, named)
    if not data:
        return EMPTY
    first = data[0]
    if first in _MAY_BE_JSON:
        found = _json(data)
        if found is not None:
            return found
    elif first == 0:
        if len(data) >= ID_SIZE and (number := int.from_bytes(data[1:ID_SIZE], "big")):
            return _by_prefix(data[ID_SIZE:], str(number))
        return Recognised(Form.BYTES)
    elif data.startswith(CONTAINER):
        return Recognised(Form.CONTAINER)
    return _text(data)


def id_in_header(value: bytes) -> str | None:
    """The id or GUID that Confluent's serializers write to a header; None if it has neither form."""
    if len(value) >= GUID_SIZE and value[0] == 1:
        digits = value[1:GUID_SIZE].hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if len(value) >= ID_SIZE and value[0] == 0 and (number := int.from_bytes(value[1:ID_SIZE], "big")):
        return str(number)
    return None


def _json(data: bytes) -> Recognised | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if type(value) is str:
        return Recognised(Form.JSON, None, value)
    if type(value) in (dict, list):
        if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH and find_fault(data, 0, len(data), MAX_JSON_DEPTH):
            return None
        return Recognised(Form.JSON, None, value)
    return Recognised(Form.SCALAR, None, value, data.decode())


def _text(data: bytes) -> Recognised:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Recognised(Form.BYTES)
    if len(data.translate(None, _CONTROLS)) < len(data):
        return Recognised(Form.BYTES)
    return Recognised(Form.TEXT, None, None, text)


def _by_prefix(payload: bytes, named: str) -> Recognised:
    if payload and payload[0] in _MAY_BE_JSON and (found := _json(payload)) is not None and found.form is Form.JSON:
        return Recognised(Form.PREFIX_JSON, named, found.value)
    is_message = is_protobuf(payload, with_indexes=True)
    return Recognised(Form.PREFIX_PROTOBUF if is_message else Form.PREFIX_AVRO, named)


def _by_header(payload: bytes, named: str) -> Recognised:
    if payload and payload[0] in _MAY_BE_JSON and (found := _json(payload)) is not None:
        return Recognised(Form.HEADER_JSON, named, found.value)
    return Recognised(Form.HEADER_PROTOBUF if is_protobuf(payload, with_indexes=False) else Form.HEADER_AVRO, named)


def is_protobuf(data: bytes, with_indexes: bool) -> bool:
    """Whether the bytes are the fields of a Protobuf message, after the indexes of its type in the schema's file."""
    at = _indexes_end(data) if with_indexes else 0
    if at < 0 or (at > 1 and at == len(data)):  # an empty message of a type that is not the first one
        return False
    for _ in range(MAX_FIELDS):
        if at == len(data):
            return True
        at = _field_end(data, at)
        if at < 0:
            return False
    return True


def _indexes_end(data: bytes) -> int:
    """Where the message begins; -1: nothing like indexes is before it."""
    count, at = _varint(data, 0)
    if at < 0 or count > 2 * MAX_INDEXES or count % 2:  # zigzag
        return -1
    for _ in range(count // 2):
        index, at = _varint(data, at)
        if at < 0 or index > 2 * MAX_INDEX or index % 2:
            return -1
    return at


def _field_end(data: bytes, at: int) -> int:
    tag, at = _varint(data, at)
    if at < 0 or not 1 <= tag >> 3 < 1 << 29:
        return -1
    match tag & 7:
        case 0:
            _, at = _varint(data, at)
        case 1:
            at += 8
        case 2:
            size, at = _varint(data, at)
            at = at + size if at >= 0 else -1
        case 5:
            at += 4
        case _:
            return -1
    return at if at <= len(data) else -1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number and where it ends; -1: it does not."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    return 0, -1
