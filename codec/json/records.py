"""Which records of a batch are not JSON: `syntax` over all of them in one call, without a value cut out.

This file runs as it is and compiled (records.pxd holds the C types).
"""

from __future__ import annotations

import sys

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.json.syntax import describe, scan
    from kafka_sidecar.codec.records import Records
else:
    from cython.cimports.kafka_sidecar.codec.json.syntax import describe, scan  # type: ignore[no-redef]


def find_not_json(
    records: Records, of_key: bool, max_depth: int, nulls: bool = True, max_results: int = sys.maxsize
) -> list[tuple[int, str | None]]:
    """The indexes of the records whose value, or key, is not one well-formed JSON text.

    Each with the reason as `syntax.fault` tells it, or None where the value, or key, is null, if ``nulls`` are
    wanted too. Of the first ``max_results``.
    """
    found: list[tuple[int, str | None]] = []
    record = records._cursor()
    data = records.payload
    for index in range(len(records)):
        record._advance()
        record._read()
        start = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        fault = scan(data, start, start + size, max_depth) if size >= 0 else 0
        if fault or (nulls and size < 0):
            found.append((index, describe(fault, start, max_depth)))
            if len(found) >= max_results:
                break
    return found
