"""Checks every length in the records of a batch, once, so that other code need not.

This file runs as it is and compiled (check.pxd holds the C types). The first byte of each varint is read inline: a call
for each would double the time of the uncompiled code.
"""

from __future__ import annotations

from kafka_sidecar.codec.checkpoint import COMPILED, checkpoint
from kafka_sidecar.codec.errors import CodecError, TruncatedError

# length: varint                of all that follows
# attributes: int8
# timestampDelta: varlong       from the batch's base timestamp
# offsetDelta: varint           from the batch's base offset
# keyLength: varint, key        -1: null
# valueLength: varint, value    -1: null
# headers: varint count, then
#   keyLength: varint, key      UTF-8
#   valueLength: varint, value  -1: null
#
# Varints are zigzag encoded: "raw" is the value before decoding, so an odd one is negative, and 1 is -1.
NULL = 1
MIN_RECORD_BYTES = 7  # seven fields of one byte
_COMPILED = COMPILED  # for C


def check(data: bytes, count: int) -> None:
    """Check that ``data`` is exactly ``count`` well-formed records.

    Raises:
        CodecError: it is not.
    """
    at = 0
    if count < 0 or count > len(data) // MIN_RECORD_BYTES:
        raise CodecError(f"invalid number of records {count} for {len(data)} bytes")
    try:
        for index in range(count):
            at = _record_end(data, at, index)
            if index & _COMPILED == _COMPILED:
                checkpoint()
    except IndexError as error:
        raise TruncatedError("the records end inside a record") from error
    if at != len(data):
        raise CodecError(f"{len(data) - at} bytes follow the last of {count} records")


def _record_end(data: bytes, at: int, index: int) -> int:
    """The end of the record at ``at``; IndexError if the data end before it.

    Positions only grow: if the last one is the end of the record, all fields are inside it.
    """
    raw = data[at]
    at += 1
    if raw > 127:
        raw, at = _longer(data, at, raw)
    end = -1 if raw & 1 else at + (raw >> 1)
    start = at = at + 1
    while data[at] > 127:
        at += 1
    if at - start > 8 and (at - start > 9 or data[at] > 1):
        raise _bad(index, "its timestamp delta does not fit 64 bits")
    start = at = at + 1
    while data[at] > 127:
        at += 1
    if at - start > 3 and (at - start > 4 or data[at] > 15):
        raise _bad(index, "its offset delta does not fit 32 bits")
    at += 1
    for _ in range(2):
        raw = data[at]
        at += 1
        if raw > 127:
            raw, at = _longer(data, at, raw)
        if raw & 1 and raw != NULL:
            raise _bad(index, "invalid length of its key or value")
        at += raw >> 1
    raw = data[at]
    at += 1
    at = _headers_end(data, at, raw, index) if raw else at
    if at != end:
        raise _bad(index, "its length is not that of its fields")
    return at


def _headers_end(data: bytes, at: int, raw: int, index: int) -> int:
    """The end of the headers; ``raw`` is the first byte of their count, ``at`` the position after it."""
    if raw > 127:
        raw, at = _longer(data, at, raw)
    if raw & 1:
        raise _bad(index, "invalid number of headers")
    for header in range(raw >> 1):
        if header & _COMPILED == _COMPILED:
            checkpoint()
        raw = data[at]
        at += 1
        if raw > 127:
            raw, at = _longer(data, at, raw)
        if raw & 1:
            raise _bad(index, "invalid length of the key of a header")
        at += raw >> 1
        raw = data[at]
        at += 1
        if raw > 127:
            raw, at = _longer(data, at, raw)
        if raw & 1 and raw != NULL:
            raise _bad(index, "invalid length of the value of a header")
        at += raw >> 1
    return at


def _bad(index: int, what: str) -> CodecError:
    return CodecError(f"record {index}: {what}")


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a varint after its ``first`` byte: its raw value and the position after it.

    -1 if it does not fit 32 bits, which is an invalid length everywhere. An exception would have to be checked for
    after each call in C.
    """
    raw = first & 127
    shift = 7
    while shift < 35 and at < len(data):
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128 and raw >> 32 == 0:
            return raw, at
        shift += 7
    return -1, at
