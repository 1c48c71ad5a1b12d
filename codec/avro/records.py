"""Finds the records of a batch that are no values of an Avro schema, in one call and without copying values.

This file runs as it is and compiled (records.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.avro.walk import STACK_BYTES
from kafka_sidecar.codec.checkpoint import COMPILED, MAX_BYTES, checkpoint

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.avro.walk import walk_long
    from kafka_sidecar.codec.records import Records
else:
    from cython.cimports.kafka_sidecar.codec.avro.walk import walk_long  # type: ignore[no-redef]

_COMPILED, _MAX_BYTES, _STACK_BYTES = COMPILED, MAX_BYTES, STACK_BYTES  # for C


def find_not_avro(
    records: Records, of_key: bool, skip: int, program: bytes, max_depth: int, max_results: int
) -> list[tuple[int, int, int]]:
    """The records whose value, or key, is shorter than ``skip`` bytes, or is no value of the program's type after them.

    At most ``max_results``, each as its index and where its bytes begin and end in the payload; null is none of them.
    """
    found: list[tuple[int, int, int]] = []
    record = records._cursor()
    data = records.payload
    stack = bytearray(_STACK_BYTES)
    read = 0  # bytes since the last checkpoint
    for index in range(len(records)):
        record._advance()
        record._read()
        start = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        if size < 0:
            continue
        read += size
        if read > _MAX_BYTES or index & _COMPILED == _COMPILED:
            read = 0
            checkpoint()
        if size < skip or walk_long(program, data, start + skip, start + size, stack, max_depth) < 0:
            found.append((index, start, start + size))
            if len(found) >= max_results:
                break
    return found
