"""Finds the records of a batch that are not JSON, in one call and without copying values.

This file runs as it is and compiled (records.pxd holds the C types).
"""

from __future__ import annotations

import sys

from kafka_sidecar.codec.checkpoint import COMPILED, MAX_BYTES, checkpoint

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.json.syntax import describe, scan_long
    from kafka_sidecar.codec.records import Records
else:
    from cython.cimports.kafka_sidecar.codec.json.syntax import describe, scan_long  # type: ignore[no-redef]

_COMPILED, _MAX_BYTES = COMPILED, MAX_BYTES  # for C


def find_not_json(
    records: Records, of_key: bool, max_depth: int, nulls: bool = True, max_results: int = sys.maxsize
) -> list[tuple[int, str | None]]:
    """The indexes of the records whose value, or key, is not one well-formed JSON text, at most ``max_results``.

    Each has the reason as from `syntax.find_fault`, or None if the value, or key, is null; these are included only with
    ``nulls``.
    """
    found: list[tuple[int, str | None]] = []
    record = records._cursor()
    data = records.payload
    read = 0  # bytes since the last checkpoint
    for index in range(len(records)):
        record._advance()
        record._read()
        start = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        read += size
        if read > _MAX_BYTES or index & _COMPILED == _COMPILED:
            read = 0
            checkpoint()
        fault = scan_long(data, start, start + size, max_depth) if size >= 0 else 0
        if fault or (nulls and size < 0):
            found.append((index, describe(fault, start, max_depth)))
            if len(found) >= max_results:
                break
    return found
