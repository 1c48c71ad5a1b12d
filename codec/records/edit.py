# cython: boundscheck=False
"""Edits the headers of all records of a batch in one call: adds one to each, or removes all with certain keys (KIP-82).

This file runs as it is and compiled (edit.pxd holds the C types). One loop does both. It writes into a buffer for the
largest possible result; if that is over the limit, it first runs without a buffer, to compute the size. Unchanged bytes
are copied as they are, needlessly long varints included: of a changed record only its length and the number of its
headers are new.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafka_sidecar.codec.checkpoint import COMPILED, MAX_BYTES, checkpoint
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records.batch import MAX_RECORDS_BYTES
from kafka_sidecar.codec.records.compression import too_large_error
from kafka_sidecar.codec.records.writing import KEEP, Keep

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records.output_buffer import allocate, truncate
    from kafka_sidecar.codec.records.record import matches_at, uvarint
    from kafka_sidecar.codec.records.records import Records
else:
    from cython.cimports.kafka_sidecar.codec.records.output_buffer import allocate, truncate  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.records.record import matches_at, uvarint  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.records.records import Records  # type: ignore[no-redef]
    from cython.cimports.libc.string import memcpy

NULL = 1  # -1, zigzag coded
_COMPILED, _MAX_BYTES = COMPILED, MAX_BYTES  # for C
_LONG = 64 << 10  # bytes
MAX_LENGTH_BYTES = 2**31 - 1  # every length on the wire is an int32
MAX_LENGTHS_BYTES = 4 * 5  # of a record, its number of headers, a header's key and value, as varints


def with_header(
    records: Records, key: bytes, value: bytes | None, *, only_if_absent: bool = False, limit: int = MAX_RECORDS_BYTES
) -> Records:
    """The records, each with a header appended; with ``only_if_absent`` only those that have none with this key. If no
    record changes the result is ``records`` itself.

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
    """As `with_header`, with a value for each record; `KEEP`: the record is not changed.

    Raises:
        BatchTooLargeError: the result would have more than ``limit`` bytes.
        CodecError: the number of values is not that of the records.
    """
    if len(values) != len(records):
        raise CodecError(f"{len(values)} header values for {len(records)} records")
    return _edit_headers(records, [], key, KEEP, list(values), only_if_absent, limit)


def without_headers(records: Records, keys: Collection[bytes]) -> Records:
    """The records without headers of these keys; if there are none the result is ``records`` itself."""
    if not all(isinstance(key, bytes) for key in keys):  # the compiled loop cannot raise
        raise TypeError("the key of a header must be bytes")
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
    out = allocate(size)
    size = _write_records(out, records, without, key, value, values, only_if_absent, limit)
    return records._rewritten(truncate(out, size), records._count) if size else records


def _max_size(
    records: Records, key: bytes, value: bytes | Keep | None, values: list[bytes | Keep | None] | None
) -> int:
    """The maximum size of the result: one more header in each record, all changed lengths at their maximum."""
    size = len(records.payload) + records._count * (MAX_LENGTHS_BYTES + len(key))
    if values is None:
        return size + records._count * _size(value)
    for value in values:
        size += _size(value)
    return size


def _size(value: bytes | Keep | None) -> int:
    return 0 if value is None or value is KEEP else len(value)


def _write_records(
    out: bytearray | None,
    records: Records,
    without: list[bytes],
    key: bytes,
    value: bytes | Keep | None,
    values: list[bytes | Keep | None] | None,
    only_if_absent: bool,
    limit: int,
) -> int:
    """Write all records into ``out`` unless it is None; returns their size in bytes, 0 if none of them changes."""
    data = records.payload
    record = records._cursor()
    at = copied = checked = 0
    for index in range(records._count):
        record._advance()
        record._read()
        if index & _COMPILED == _COMPILED or record._end - checked > _MAX_BYTES:
            checked = record._end
            checkpoint()
        wanted = value if values is None else values[index]
        adds = wanted is not KEEP and not (only_if_absent and record._find(key) >= 0)
        raw, first = uvarint(data, record._headers_at)
        size, left = _put_others(None, 0, data, first, record._end, raw >> 1, without)
        if not adds and left == raw >> 1:
            continue
        left += adds
        size += _put_header(None, 0, key, wanted) if adds else 0  # type: ignore[arg-type]
        size += record._headers_at - record._start + _put_varint(None, 0, left << 1)
        at = _put(out, at, data, copied, record._begin)
        at = _put_varint(out, at, size << 1)
        at = _put(out, at, data, record._start, record._headers_at)
        at = _put_varint(out, at, left << 1)
        at, _ = _put_others(out, at, data, first, record._end, raw >> 1, without)
        at = _put_header(out, at, key, wanted) if adds else at  # type: ignore[arg-type]
        copied = record._end
        if at > limit:
            break
    if copied and at + len(data) - copied > limit:
        raise too_large_error(limit)
    return _put(out, at, data, copied, len(data)) if copied else 0


def _put_others(
    out: bytearray | None, to: int, data: bytes, at: int, end: int, count: int, without: list[bytes]
) -> tuple[int, int]:
    """Write the headers between ``at`` and ``end`` whose key is not in ``without``; returns their end and count."""
    if not without:
        return _put(out, to, data, at, end), count
    left = 0
    for _ in range(count):
        begin = at
        raw, at = uvarint(data, at)
        size = raw >> 1
        raw, end = uvarint(data, at + size)
        end += raw >> 1
        if not _is_among(without, data, at, size):
            to = _put(out, to, data, begin, end)
            left += 1
        at = end
    return to, left


def _is_among(names: list[bytes], data: bytes, at: int, size: int) -> bool:
    """Whether the ``size`` bytes at ``at`` are one of the names."""
    for name in names:  # noqa: SIM110 - a generator would be an object for each header
        if len(name) == size and matches_at(name, data, at):
            return True
    return False


def _put_header(out: bytearray | None, at: int, key: bytes, value: bytes | None) -> int:
    at = _put_varint(out, at, len(key) << 1)
    at = _put(out, at, key, 0, len(key))
    if value is None:
        return _put_varint(out, at, NULL)
    at = _put_varint(out, at, len(value) << 1)
    return _put(out, at, value, 0, len(value))


def _put_varint(out: bytearray | None, at: int, raw: int) -> int:
    """Write a varint that is already zigzag encoded; returns its end."""
    while raw > 127:
        at = _put_byte(out, at, raw & 127 | 128)
        raw >>= 7
    return _put_byte(out, at, raw)


def _put_byte(out: bytearray | None, at: int, byte: int) -> int:
    if out is not None:
        if cython.compiled:
            cython.cast(cython.p_uchar, out)[at] = byte
        else:
            out[at] = byte
    return at + 1


def _put(out: bytearray | None, at: int, data: bytes, start: int, end: int) -> int:
    """Copy ``data[start:end]`` to ``at``, unless ``out`` is None; returns the end of the copy. Other threads run
    meanwhile if it is long: the first write to new memory takes longer than the copy."""
    if out is not None:
        if cython.compiled:
            to = cython.cast(cython.p_char, out) + at
            begin = cython.cast(cython.p_char, data) + start
            size = end - start
            if size < _LONG:
                memcpy(to, begin, size)
            else:
                with cython.nogil:
                    memcpy(to, begin, size)
        else:
            out[at : at + end - start] = data[start:end]
    return at + end - start
