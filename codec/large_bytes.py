"""Makes one object of megabytes that arrive in parts, on large pages.

Memory for a new object of megabytes is mapped page by page as it is written, unless it was used before
(runtime/program.py). With pages of 4 KB that takes longer than the copy itself, so Linux is asked for pages of 2 MB.

This file runs as it is, with one copy more, and compiled (large_bytes.pxd holds the C types).
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

MIN_LARGE_BYTES = 4 << 20  # for smaller objects it is not worth a system call
_MIN_LARGE_BYTES = MIN_LARGE_BYTES  # for C
_HELD_BYTES = 256 << 10  # are copied before other threads may run


class Gathered:
    """A large object, written as its parts arrive: none of them is kept, and memory is taken as it is written."""

    __slots__ = ("_at", "_out", "_view")

    _at: int
    _out: bytes
    _view: memoryview

    def __init__(self, size: int) -> None:
        """``size``: bytes of all parts together."""
        self._at = 0
        if cython.compiled:
            self._out = PyBytes_FromStringAndSize(cython.NULL, size)
            start = cython.cast(cython.p_char, self._out)
            want_large_pages(start, size)  # type: ignore[name-defined] # noqa: F821 - declared in large_bytes.pxd
            self._view = PyMemoryView_FromMemory(start, size, PyBUF_WRITE)  # type: ignore[name-defined] # noqa: F821 - as above
        else:
            self._view = memoryview(bytearray(size))

    def add(self, part: Buffer) -> None:
        """The part that comes next. Raises ValueError: it is longer than what is missing."""
        end = self._at + len(part)
        self._view[self._at : end] = part
        self._at = end

    def _add_released(self, part: Buffer) -> None:
        """As `add`; other threads run meanwhile."""
        if cython.compiled:
            start = cython.cast(cython.p_char, self._out)
            self._at += copy_released(start + self._at, part, len(self._view) - self._at)  # type: ignore[name-defined] # noqa: F821 - declared in large_bytes.pxd
        else:
            self.add(part)

    @property
    def room(self) -> memoryview:
        """Where the rest can be written to, all but its last byte; valid as long as this object is not let go."""
        return self._view[self._at : len(self._view) - 1]

    def fill(self, size: int) -> None:
        """So many bytes have been written to `room`."""
        self._at += size

    def whole(self) -> bytes:
        """All parts, which must have come; called once. The object is no longer held here: it may be for a while."""
        if self._at != len(self._view):
            raise ValueError(f"{self._at} bytes have come of {len(self._view)}")
        if not cython.compiled:
            whole, self._view = bytes(self._view), memoryview(b"")
            return whole
        self._view.release()
        whole, self._out = self._out, b""
        return whole


def copy(data: Buffer, start: int, end: int) -> bytes:
    """``data[start:end]``. Other threads run meanwhile, if there are many bytes."""
    if end - start < _MIN_LARGE_BYTES:
        return bytes(data[start:end])
    return join((memoryview(data)[start:end],))


def join(parts: Sequence[Buffer]) -> bytes:
    """The bytes of all parts, in their order. Other threads run meanwhile, if there are many bytes."""
    size = 0
    for part in parts:
        size += len(part)
    if size < _MIN_LARGE_BYTES or not cython.compiled:
        return b"".join(parts)
    out, held = Gathered(size), 0
    for part in parts:
        held += len(part)
        if held < _HELD_BYTES:
            out.add(part)
        else:
            out._add_released(part)
            held = 0
    return out.whole()
