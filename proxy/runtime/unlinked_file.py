"""A file without a name: its bytes are gone once no one holds it, also after SIGKILL.

Its view is mapped memory that is not read: what is sent of it is read in pieces, in a thread.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from kafka_sidecar.codec.wire import Buffer

UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})  # a file system that cannot reserve room


class UnlinkedFile:
    """One file. `open`, `write` and `read` take long; each raises OSError."""

    __slots__ = ("__weakref__", "_fds", "_folder", "size")

    def __init__(self, folder: Path, size: int, close: Callable[[list[int]], None]) -> None:
        """
        Args:
            folder: where `open` creates it.
            size: bytes.
            close: is called with the descriptors that are open, once neither the file nor its view is held. In whatever
                thread: it must not wait.
        """
        self._folder = folder
        self._fds: list[int] = []
        self.size = size
        weakref.finalize(self, close, self._fds).atexit = False

    def open(self) -> None:
        """Create the file, and have the file system reserve room for all of it."""
        with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
            fd = os.dup(file.fileno())
        self._fds.append(fd)
        try:
            os.posix_fallocate(fd, 0, self.size)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            os.ftruncate(fd, self.size)

    def write(self, at: int, data: Buffer) -> None:
        """Put bytes in their place."""
        left = memoryview(data)
        while left:
            count = os.pwrite(self._fds[0], left, at)
            left, at = left[count:], at + count

    def read(self, at: int, size: int) -> bytes:
        """``size`` bytes from ``at`` on. Fewer would move all that follows them in a response."""
        data = os.pread(self._fds[0], size, at)
        if len(data) != size:
            raise OSError(errno.EIO, f"{len(data)} bytes of {size} can be read at {at} of {self.size}")
        return data

    @property
    def view(self) -> memoryview:
        """All bytes. The file is held as long as this is."""
        return memoryview(_Mapped.of(self, self._fds[0]))


class _Mapped(mmap.mmap):
    """A file's bytes as memory, into which they are read where they are looked at."""

    file: UnlinkedFile

    @classmethod
    def of(cls, file: UnlinkedFile, fd: int) -> _Mapped:
        mapped = cls(fd, file.size, access=mmap.ACCESS_READ)
        mapped.file = file
        return mapped


def file_of(data: Buffer) -> UnlinkedFile | None:
    """The file all of which this is the view of; None: it is in memory."""
    if isinstance(data, memoryview) and isinstance(data.obj, _Mapped) and len(data) == data.obj.file.size:
        return data.obj.file
    return None


def check_folder(folder: Path) -> None:
    """Raises OSError: no file can be created there."""
    with tempfile.TemporaryFile(dir=folder):
        pass
