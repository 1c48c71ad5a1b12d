"""The 61 bytes of a batch before its records.

This file runs as it is and compiled (batch_header.pxd holds the C types).
"""

from __future__ import annotations

from typing import Any

from kafka_sidecar.codec.batch_layout import (
    BATCH_HEADER_SIZE,
    CODEC_BITS,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC_AT,
    NEWEST_MAGIC,
    TRANSACTIONAL,
)

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBuffer_IsContiguous
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER

# For C.
_SIZE, _MAGIC_AT, _MAGIC = BATCH_HEADER_SIZE, MAGIC_AT, NEWEST_MAGIC


class BatchHeader:
    """The 61 bytes before the records (magic 2), read only. Times are milliseconds since 1970."""

    __slots__ = (
        "attributes", "base_offset", "base_sequence", "base_timestamp", "count", "crc", "last_offset_delta",
        "leader_epoch", "length", "magic", "max_timestamp", "producer_epoch", "producer_id",
    )  # fmt: skip

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # of records

    @property
    def codec(self) -> int:
        """0 to 4 as in `Codec`; 5 to 7 are invalid."""
        return self.attributes & CODEC_BITS

    @property
    def has_log_append_time(self) -> bool:
        """Whether the broker has set the timestamp of all records, to ``max_timestamp`` (KIP-32)."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a control record, such as the marker of a transaction, not records of an application."""
        return bool(self.attributes & CONTROL)

    def fields(self) -> dict[str, int]:
        """All fields by name, in wire order."""
        return {
            "base_offset": self.base_offset, "length": self.length, "leader_epoch": self.leader_epoch,
            "magic": self.magic, "crc": self.crc, "attributes": self.attributes,
            "last_offset_delta": self.last_offset_delta, "base_timestamp": self.base_timestamp,
            "max_timestamp": self.max_timestamp, "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch, "base_sequence": self.base_sequence, "count": self.count,
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self.fields() == other.fields() if isinstance(other, BatchHeader) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.fields().values()))

    def __repr__(self) -> str:
        return f"BatchHeader({', '.join(f'{name}={value}' for name, value in self.fields().items())})"


def header_at(view: memoryview, at: int) -> BatchHeader | None:
    """The header of the batch at ``at``; None if the batch is older than magic 2, or its header is incomplete.

    Raises:
        BufferError: the view is not contiguous, or not of bytes.
    """
    if cython.compiled:
        buffer = PyMemoryView_GET_BUFFER(view)
        if buffer.itemsize != 1 or not PyBuffer_IsContiguous(buffer, b"C"):
            raise BufferError("expected contiguous bytes")
        if at < 0 or at > buffer.len - _SIZE:
            return None
        data = cython.cast(cython.pointer(cython.uchar), buffer.buf) + at
        return _header(data) if data[_MAGIC_AT] == _MAGIC else None
    if at > len(view) - _SIZE or view[at + _MAGIC_AT] != _MAGIC:
        return None
    header = BatchHeader.__new__(BatchHeader)
    (
        header.base_offset, header.length, header.leader_epoch, header.magic, header.crc, header.attributes,
        header.last_offset_delta, header.base_timestamp, header.max_timestamp, header.producer_id,
        header.producer_epoch, header.base_sequence, header.count,
    ) = HEADER.unpack_from(view, at)  # fmt: skip
    return header


if cython.compiled:

    def _header(data: Any) -> BatchHeader:
        header = BatchHeader.__new__(BatchHeader)
        header.base_offset = _integer(data, 8)
        header.length = _integer(data + 8, 4)
        header.leader_epoch = _integer(data + 12, 4)
        header.magic = _MAGIC
        header.crc = _integer(data + 17, 4)
        header.attributes = _integer(data + 21, 2)
        header.last_offset_delta = _integer(data + 23, 4)
        header.base_timestamp = _integer(data + 27, 8)
        header.max_timestamp = _integer(data + 35, 8)
        header.producer_id = _integer(data + 43, 8)
        header.producer_epoch = _integer(data + 51, 2)
        header.base_sequence = _integer(data + 53, 4)
        header.count = _integer(data + 57, 4)
        return header

    def _integer(data: Any, size: int) -> int:
        """A signed integer; an unsigned field keeps its bits."""
        value: int = data[0]
        if value > 127:
            value -= 256
        for index in range(1, size):
            value = value * 256 + data[index]
        return value
