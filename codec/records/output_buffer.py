"""Buffers that become `bytes` without a copy, once they are written.

This file runs as it is and compiled (output_buffer.pxd holds the C types): `bytes` in C, in Python a `bytearray` that
is copied after all.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize


def allocate(size: int) -> bytearray:
    """A buffer of uninitialised bytes."""
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.NULL, size)  # type: ignore[no-any-return]
    return bytearray(size)


def writable_view(out: bytearray, size: int) -> memoryview:
    """A view to write to, which must not be used once the buffer is truncated."""
    if cython.compiled:
        return PyMemoryView_FromMemory(cython.cast(cython.p_char, out), size, PyBUF_WRITE)  # type: ignore[name-defined,no-any-return] # noqa: F821 - declared in output_buffer.pxd
    return memoryview(out)


def truncate(out: bytearray, size: int) -> bytes:
    """The first ``size`` bytes of the buffer, which must not be used afterwards."""
    if cython.compiled:  # as _PyBytes_Resize does, without moving the bytes
        cython.cast(cython.p_char, out)[size] = 0
        Py_SET_SIZE(out, size)  # type: ignore[name-defined] # noqa: F821 - declared in output_buffer.pxd
        return out  # type: ignore[return-value]
    return bytes(memoryview(out)[:size])
