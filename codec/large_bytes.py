"""Joins megabytes into one object, on large pages.

Memory for a new object of megabytes is mapped page by page as it is written. With pages of 4 KB that takes longer than
the copy itself, so Linux is asked for pages of 2 MB.

This file runs as it is and compiled (large_bytes.pxd holds the C types); in Python it is `bytes.join`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_sidecar.codec.wire import Buffer

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize

MIN_LARGE_BYTES = 4 << 20  # smaller objects come from memory that is mapped already (runtime/allocator.py)
_MIN_LARGE_BYTES = MIN_LARGE_BYTES  # for C


def join(parts: Sequence[Buffer]) -> bytes:
    """The bytes of all parts, in their order."""
    if not cython.compiled:
        return b"".join(parts)
    size = 0
    for part in parts:
        size += len(part)
    if size < _MIN_LARGE_BYTES:
        return b"".join(parts)
    out = PyBytes_FromStringAndSize(cython.NULL, size)
    start = cython.cast(cython.p_char, out)
    want_large_pages(start, size)  # type: ignore[name-defined] # noqa: F821 - declared in large_bytes.pxd
    view = PyMemoryView_FromMemory(start, size, PyBUF_WRITE)  # type: ignore[name-defined] # noqa: F821 - as above
    at = 0
    for part in parts:
        end = at + len(part)
        view[at:end] = part
        at = end
    return out  # type: ignore[no-any-return]
