"""lz4 frames as clients write them, each of their blocks decompressed to where it belongs.

The frame API copies everything once more, which is a tenth of its time. It is for all other frames, and says what is
wrong with one: here that is only noticed.

This file runs as it is and compiled (lz4_blocks.pxd holds the C types).
"""

from __future__ import annotations

import cramjam

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records.output_buffer import allocate, truncate, writable_view
else:
    from cython.cimports.cpython.buffer import PyBuffer_IsContiguous
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.kafka_sidecar.codec.records.output_buffer import allocate, truncate, writable_view  # type: ignore[no-redef]
    from cython.cimports.libc.string import memcmp

# magic: uint32 little-endian
# flags: int8               version 1, independent blocks; no checksums, no content size, no dictionary
# block size: int8          64 KB
# header checksum: int8
# then blocks: uint32 little-endian size, of which the highest bit says that it is not compressed, and its bytes
# the last size is 0
START = bytes.fromhex("04224d18 60 40 82")
BLOCK_BYTES = 64 << 10  # at most, decompressed
RAW = 1 << 31
MAX_RATIO = 16  # of the buffer to the frame: that many blocks are tiny ones, for which it would be far too large
MIN_BLOCKS, SMALL_BLOCK_BYTES = 1024, 1 << 10  # more blocks, of which the average is smaller, take longer than copying
_START, _START_SIZE, _BLOCK_BYTES, _RAW, _MAX_RATIO = START, len(START), BLOCK_BYTES, RAW, MAX_RATIO  # for C
_MIN_BLOCKS, _SMALL_BLOCK_BYTES = MIN_BLOCKS, SMALL_BLOCK_BYTES


def decompress_blocks(data: memoryview, limit: int) -> bytes | None:
    """What the frame holds; None where the frame API must read it: it is of another form, is not whole, cannot be
    decompressed, or might hold more than ``limit`` bytes."""
    size = _max_size(data)
    if size < 0 or size > limit or size > _MAX_RATIO * len(data) + _BLOCK_BYTES:
        return None
    out = allocate(size)
    view = writable_view(out, size)
    at, to = _START_SIZE, 0
    end = len(data) - 4
    while at < end:
        size = _size_at(data, at)
        at += 4
        if size & _RAW:
            size ^= _RAW
            view[to : to + size] = data[at : at + size]
            to += size
        else:
            try:
                to += cramjam.lz4.decompress_block_into(
                    data[at : at + size], view[to : to + _BLOCK_BYTES], _BLOCK_BYTES
                )
            except cramjam.DecompressionError:
                return None
        at += size
    return truncate(out, to)


def _max_size(data: memoryview) -> int:
    """The most that the blocks can hold; -1 where these are not exactly the blocks of such a frame, or tiny ones."""
    end = len(data)
    if end < _START_SIZE + 4 or not _has_start(data):
        return -1
    at, found, max_blocks = _START_SIZE, 0, _MIN_BLOCKS + end // _SMALL_BLOCK_BYTES
    size = _size_at(data, at)
    blocks = 0
    while size:
        blocks += 1
        raw = size & ~_RAW
        found += raw if size & _RAW else _BLOCK_BYTES
        at += 4 + raw
        if raw > _BLOCK_BYTES or at > end - 4 or blocks > max_blocks:
            return -1
        size = _size_at(data, at)
    return found if at == end - 4 else -1


def _has_start(data: memoryview) -> bool:
    if cython.compiled:
        buffer = PyMemoryView_GET_BUFFER(data)
        if buffer.itemsize != 1 or not PyBuffer_IsContiguous(buffer, b"C"):
            return False
        return bool(memcmp(buffer.buf, cython.cast(cython.p_char, _START), _START_SIZE) == 0)
    return data[:_START_SIZE] == _START


def _size_at(data: memoryview, at: int) -> int:
    if cython.compiled:
        place = cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(data).buf) + at
        return place[0] | place[1] << 8 | place[2] << 16 | cython.cast(cython.Py_ssize_t, place[3]) << 24  # type: ignore[no-any-return]
    return int.from_bytes(data[at : at + 4], "little")
