# cython: boundscheck=False
"""The headers of all records of a batch changed in one call: one added to each, all of some names removed (KIP-82).

This file runs as it is and compiled (edit.pxd holds the C types). One loop does both. It writes into room for the
largest result that is possible; where that is over the limit it first runs without room, to find the size. What is not
to change is copied, needlessly long varints included: of a changed record only its length and the number of its headers
are new.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records.batch import MAX_RECORDS_BYTES
from kafka_sidecar.codec.records.compression import too_large_error
from kafka_sidecar.codec.records.writing import KEEP, Keep

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records.record import matches_at, uvarint
    from kafka_sidecar.codec.records.records import Records
else:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.kafka_sidecar.codec.records.record import matches_at, uvarint  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.records.records import Records  # type: ignore[no-redef]
    from cython.cimports.libc.string import memcpy

NULL = 1  # -1, zigzag coded
MAX_LENGTH_BYTES = 2**31 - 1  # every length on the wire is an int32
MAX_LENGTHS_BYTES = 4 * 5  # of a record, its number of headers, a header's key and value, as varints


def with_header(
    records: Records, key: bytes, value: bytes | None, *, only_if_absent: bool = False, limit: int = MAX_RECORDS_BYTES
) -> Records:
    """The records, each with one more header after its own; with ``only_if_absent`` not those that have one of this
    key. If no record changes it is ``records`` itself.

    Raises:
        BatchTooLargeError: the result would have more than ``limit`` bytes.
    """
    return _edit_headers(records, [], key, value, None, only_if_absent, limit)


def with_header_each(
    records: Records,
    key: bytes,
    values: Sequence[bytes | Keep | None],
    *,
    only_if_absent: bool = False,
    limit: int = MAX_RECORDS_BYTES,
) -> Records:
    """As `with_header`, with a value for each record; one for which that is `KEEP` stays as it was.

    Raises:
        BatchTooLargeError: the result would have more than ``limit`` bytes.
        CodecError: there are not as many values as records.
    """
    if len(values) != len(records):
        raise CodecError(f"{len(values)} values of a header for {len(records)} records")
    return _edit_headers(records, [], key, KEEP, list(values), only_if_absent, limit)


def without_headers(records: Records, keys: Collection[bytes]) -> Records:
    """The records without any header of these keys; if they have none it is ``records`` itself."""
    if not all(isinstance(key, bytes) for key in keys):  # the loop in C has no way to say so
        raise TypeError("the key of a header is bytes")
    return _edit_headers(records, list(keys), b"", KEEP, None, False, MAX_LENGTH_BYTES)


def _edit_headers(
    records: Records,
    without: list[bytes],
    key: bytes,
    value: bytes | Keep | None,
    values: list[bytes | Keep | None] | None,
    only_if_absent: bool,
    limit: int,
) -> Records:
    limit = min(limit, MAX_LENGTH_BYTES)
    size = _max_size(records, key, value, values)
    if size > limit:
        size = _write_records(None, records, without, key, value, values, only_if_absent, limit)
    room = _room(size)
    size = _write_records(room, records, without, key, value, values, only_if_absent, limit)
    return records._rewritten(_cut_off(room, size), records._count) if size else records


def _max_size(
    records: Records, key: bytes, value: bytes | Keep | None, values: list[bytes | Keep | None] | None
) -> int:
    """What the result has at most: one more header in each record, and all lengths that change as long as can be."""
    size = len(records.payload) + records._count * (MAX_LENGTHS_BYTES + len(key))
    if values is None:
        return size + records._count * _size(value)
    for value in values:
        size += _size(value)
    return size


def _size(value: bytes | Keep | None) -> int:
    return 0 if value is None or value is KEEP else len(value)


def _write_records(
    room: bytearray | None,
    records: Records,
    without: list[bytes],
    key: bytes,
    value: bytes | Keep | None,
    values: list[bytes | Keep | None] | None,
    only_if_absent: bool,
    limit: int,
) -> int:
    """Write all records into ``room``, if there is any; how many bytes they have, 0 where none of them changes."""
    data = records.payload
    record = records._cursor()
    at = copied = 0
    for index in range(records._count):
        record._advance()
        record._read()
        wanted = value if values is None else values[index]
        adds = wanted is not KEEP and not (only_if_absent and record._find(key) >= 0)
        raw, first = uvarint(data, record._headers_at)
        size, left = _put_others(None, 0, data, first, record._end, raw >> 1, without)
        if not adds and left == raw >> 1:
            continue
        if adds:
            left += 1
            size += _put_header(None, 0, key, wanted)  # type: ignore[arg-type]
        size += record._headers_at - record._start + _put_varint(None, 0, left << 1)
        at = _put(room, at, data, copied, record._begin)
        at = _put_varint(room, at, size << 1)
        at = _put(room, at, data, record._start, record._headers_at)
        at = _put_varint(room, at, left << 1)
        at, _ = _put_others(room, at, data, first, record._end, raw >> 1, without)
        if adds:
            at = _put_header(room, at, key, wanted)  # type: ignore[arg-type]
        copied = record._end
        if at > limit:
            break
    if copied and at + len(data) - copied > limit:
        raise too_large_error(limit)
    return _put(room, at, data, copied, len(data)) if copied else 0


def _put_others(
    room: bytearray | None, to: int, data: bytes, at: int, end: int, count: int, without: list[bytes]
) -> tuple[int, int]:
    """Write the headers between ``at`` and ``end`` whose key is none of these; where they end and how many they are."""
    if not without:
        return _put(room, to, data, at, end), count
    left = 0
    for _ in range(count):
        begin = at
        raw, at = uvarint(data, at)
        size = raw >> 1
        raw, end = uvarint(data, at + size)
        end += raw >> 1
        if not _is_among(without, data, at, size):
            to = _put(room, to, data, begin, end)
            left += 1
        at = end
    return to, left


def _is_among(names: list[bytes], data: bytes, at: int, size: int) -> bool:
    """Whether the ``size`` bytes at this place are one of the names."""
    for name in names:  # noqa: SIM110 - a generator would be an object for each header
        if len(name) == size and matches_at(name, data, at):
            return True
    return False


def _put_header(room: bytearray | None, at: int, key: bytes, value: bytes | None) -> int:
    at = _put_varint(room, at, len(key) << 1)
    at = _put(room, at, key, 0, len(key))
    if value is None:
        return _put_varint(room, at, NULL)
    at = _put_varint(room, at, len(value) << 1)
    return _put(room, at, value, 0, len(value))


def _put_varint(room: bytearray | None, at: int, raw: int) -> int:
    """Write a varint that is zigzag coded already; where it ends."""
    while raw > 127:
        at = _put_byte(room, at, raw & 127 | 128)
        raw >>= 7
    return _put_byte(room, at, raw)


def _put_byte(room: bytearray | None, at: int, byte: int) -> int:
    if room is not None:
        if cython.compiled:
            cython.cast(cython.p_uchar, room)[at] = byte
        else:
            room[at] = byte
    return at + 1


def _put(room: bytearray | None, at: int, data: bytes, start: int, end: int) -> int:
    """Copy ``data[start:end]`` to ``at``, if there is room; where the copy ends."""
    if room is not None:
        if cython.compiled:
            memcpy(cython.cast(cython.p_char, room) + at, cython.cast(cython.p_char, data) + start, end - start)
        else:
            room[at : at + end - start] = data[start:end]
    return at + end - start


def _room(size: int) -> bytearray:
    """Bytes that nobody has seen yet, to be written; compiled these are `bytes`, which saves a copy of all."""
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.NULL, size)  # type: ignore[no-any-return]
    return bytearray(size)


def _cut_off(room: bytearray, size: int) -> bytes:
    """The first ``size`` bytes of the room, which is used no more."""
    if cython.compiled:  # as _PyBytes_Resize does; moving them would cost as much as writing them
        cython.cast(cython.p_char, room)[size] = 0
        Py_SET_SIZE(room, size)  # type: ignore[name-defined] # noqa: F821 - declared in edit.pxd
        return room  # type: ignore[return-value]
    return bytes(room[:size])
