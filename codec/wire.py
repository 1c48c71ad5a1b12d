"""Wire types that need more than a format character of `struct`, for the generated functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from kafka_sidecar.codec.errors import CodecError, TruncatedError

Buffer = bytes | memoryview
LENGTH = Struct(">i")  # of a frame, which begins with it and does not count it
LENGTH_SIZE = LENGTH.size
CLIENT_ID_AT = 12  # in a request frame: after length, API key, API version and correlation id
ID_SIZE = 16
NO_ID = bytes(ID_SIZE)  # the uuid of a topic in a cluster without topic ids (KIP-516)
MAX_UVARINT_BYTES = 5
UNLIMITED = 1 << 62
MAX_STRING_BYTES = (1 << 15) - 1  # as in Kafka, also where the length is a varint (KIP-482)
_ONE_BYTE = [bytes((n,)) for n in range(128)]


def read_uvarint(data: Buffer, at: int) -> tuple[int, int]:
    """An unsigned varint and the position after it.

    Raises:
        CodecError: it is longer than five bytes.
        IndexError: the bytes end inside it; the generated callers turn this into `TruncatedError`.
    """
    value = shift = 0
    for _ in range(MAX_UVARINT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise CodecError(f"a varint is longer than {MAX_UVARINT_BYTES} bytes at {at - MAX_UVARINT_BYTES}")


def read_long_uvarint(data: Buffer, at: int, ahead: int) -> tuple[int, int]:
    """The varint at ``at + ahead``, which is longer than one byte, and a corrected ``at``.

    For generated functions, which add up constant distances as if every varint had one byte: ``at`` is moved by its
    further bytes.
    """
    here = at + ahead
    second = data[here + 1]
    if second < 128:
        return data[here] & 127 | second << 7, at + 1
    third = data[here + 2]
    if third < 128:
        return data[here] & 127 | (second & 127) << 7 | third << 14, at + 2
    value, end = read_uvarint(data, here)
    return value, end - ahead - 1


def write_uvarint(value: int) -> bytes:
    """An unsigned varint.

    >>> write_uvarint(300).hex()
    'ac02'
    """
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if 0 <= value < 1 << 21:  # without a loop: enough for the lengths of most records fields
        low, high = value & 127 | 128, value >> 14
        return bytes((low, value >> 7 & 127 | 128, high)) if high else bytes((low, value >> 7))
    if not 0 <= value < 1 << 7 * MAX_UVARINT_BYTES:
        raise CodecError(f"{value} does not fit a varint")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def bad_length(what: str, length: int) -> CodecError:
    """The error for a length below -1, or for -1 (null) if the field is not nullable."""
    if length == -1:
        return CodecError(f"{what} is null")
    return CodecError(f"invalid length {length} of {what}")


def skip_tags(data: Buffer, at: int) -> int:
    """Skip a tag section."""
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return at


def read_tags(data: Buffer, at: int = 0) -> tuple[list[tuple[int, bytes]], int]:
    """The tagged fields at ``at`` as (number, payload), and the position after them.

    Raises:
        CodecError: these bytes are not a tag section.
    """
    try:
        count, at = read_uvarint(data, at)
        if 2 * count > len(data) - at:
            raise TruncatedError(f"{count} tagged fields announced, {len(data) - at} bytes left")
        tags = []
        for _ in range(count):
            tag, at = read_uvarint(data, at)
            size, at = read_uvarint(data, at)
            if size > len(data) - at:
                raise TruncatedError(f"tagged field {tag} has {size} bytes, {len(data) - at} left")
            tags.append((tag, bytes(data[at : at + size])))
            at += size
    except IndexError as error:
        raise TruncatedError("the bytes end inside the tagged fields") from error
    return tags, at


def write_tags(tags: Iterable[tuple[int, bytes]]) -> bytes:
    """A tag section, sorted by number.

    >>> write_tags([(7, b"x"), (0, b"")]).hex()
    '020000070178'
    """
    out = [b""]
    for tag, payload in sorted(tags, key=_number):
        out += (write_uvarint(tag), write_uvarint(len(payload)), payload)
    out[0] = write_uvarint(len(out) // 3)
    return b"".join(out)


def _number(tag: tuple[int, bytes]) -> int:
    return tag[0]


def read_known_tags(
    data: Buffer, at: int, known: dict[int, Callable[[Buffer, int], tuple[Any, int]]]
) -> tuple[dict[int, Any], tuple[tuple[int, bytes], ...], int]:
    """A tag section: the values of the ``known`` fields by number, the unknown fields as they are, and its end."""
    tags, at = read_tags(data, at)
    found = {}
    unknown = []
    for tag, payload in tags:
        if tag in known:
            found[tag], end = known[tag](payload, 0)
            if end != len(payload):
                raise CodecError(f"tagged field {tag} has {len(payload) - end} bytes too many")
        else:
            unknown.append((tag, payload))
    return found, tuple(unknown), at
