"""The four compression codecs of record batches, with a limit on decompressed bytes.

Everything that Java's client and broker can read is supported: several gzip members or zstd frames in sequence, bytes
after a gzip member that begin no other one, skippable frames of zstd, snappy with and without the framing of
snappy-java (Xerial), lz4 frames with independent and with linked blocks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, TypeVar

import cramjam
import lz4.frame
import zstandard

from kafka_sidecar.codec.checkpoint import checkpoint
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES, copy, join
from kafka_sidecar.codec.records.lz4_blocks import decompress_blocks

gzip_library: Any
try:
    from isal import isal_zlib as gzip_library  # 2.5 times as fast as zlib
except ImportError:
    gzip_library = zlib

Z = TypeVar("Z", zstandard.ZstdCompressor, zstandard.ZstdDecompressor)
GZIP_CHUNK = 16 << 10  # of further members, which end soon
# Flags of a member's header (RFC 1952), and the least that Java takes for a further member.
GZIP_START = b"\x1f\x8b\x08"
GZIP_HEADER, MIN_GZIP_MEMBER = 10, 19
FHCRC, FEXTRA, FNAME, FCOMMENT = 2, 4, 8, 16
GZIP_FORMAT = 31  # zlib's window bits for a gzip member with the largest window
XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
XERIAL_BLOCK = 32 << 10
LZ4_BLOCK = lz4.frame.BLOCKSIZE_MAX64KB
ZSTD_LEVEL = 3
ZSTD_BLOCK = 128 << 10  # maximum size of a decompressed zstd block
ZSTD_CHECKSUM_FLAG = 4
ZSTD_RLE, ZSTD_RESERVED = 1, 3  # block types
ZSTD_SKIPPABLE, ZSTD_SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0  # the magic number of frames that are not data
# Contexts of zstd that are kept: so many that are not in use, of at most so many bytes each. A context keeps the window
# of the largest frame that it has read: 2 MB of what Java's client writes, 128 MB of what anybody may write.
MAX_KEPT, MAX_KEPT_BYTES = 4, 4 << 20
CHUNK = 1 << 20
# A batch may consist of so many members, blocks or frames, and more in proportion to the limit of its bytes: clients
# make one member or frame, and snappy blocks of 32 KB. Each takes microseconds, even if it is empty.
MIN_PARTS, PART_BYTES = 1024, 16 << 10
# zstd's blocks are only stepped over. Its strongest levels make some of less than a kilobyte.
MIN_ZSTD_BLOCKS, ZSTD_BLOCK_BYTES = 16 << 10, 512


class BatchTooLargeError(CodecError):
    """The decompressed records are larger than the limit."""


class DecompressionError(CodecError):
    """The records were not compressed with the codec that the batch names, or are truncated."""


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(codec: int, data: memoryview, limit: int) -> bytes:
    """The decompressed ``data``.

    Raises:
        BatchTooLargeError: the result has more than ``limit`` bytes; decompression stops there.
        DecompressionError: the data was not compressed with this codec, or the codec is unknown.
    """
    function = _DECOMPRESS.get(codec)
    if function is None:
        raise DecompressionError(f"unknown compression codec {codec}")
    try:
        return function(data, limit)
    except _LIBRARY_ERRORS as error:
        raise DecompressionError(f"the batch cannot be decompressed as {Codec(codec).name.lower()}") from error


def compress(codec: int, data: bytes, like: bytes | memoryview = b"") -> bytes:
    """The compressed ``data``, as Java's client compresses it.

    Args:
        like: the compressed data that the result replaces. Raw snappy stays raw, because some clients write and read
            only that.

    Raises:
        CodecError: the codec is unknown.
    """
    function = _COMPRESS.get(codec)
    if function is None:
        raise CodecError(f"unknown compression codec {codec}")
    if function is _compress_snappy and like and like[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return bytes(cramjam.snappy.compress_raw(data))
    return function(data)


def too_large_error(limit: int) -> BatchTooLargeError:
    return BatchTooLargeError(f"the batch has more than {limit} bytes when decompressed")


def _check_parts(parts: int, limit: int) -> None:
    """Before each part. Raises BatchTooLargeError; StoppedError if the caller is to stop."""
    if parts > 1:  # nearly all batches are of one
        checkpoint()
    if parts > MIN_PARTS + limit // PART_BYTES:
        raise BatchTooLargeError(f"the batch has more than {parts - 1} compressed parts")


def _copy(data: memoryview, limit: int) -> bytes:
    size = len(data)
    if size > limit:
        raise too_large_error(limit)
    return bytes(data) if size < MIN_LARGE_BYTES else copy(data, 0, size)


def _decompress_gzip(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    left, at, chunk = limit, 0, len(data)  # in one call, if there is one member
    while not parts or _begins_member(data, at):
        _check_parts(len(parts) + 1, limit)
        member: Any = gzip_library.decompressobj(GZIP_FORMAT)
        pieces, at = _gzip_member(member, data, at, chunk, left + 1)
        part = pieces[0] if len(pieces) == 1 else join(pieces)
        if len(part) > left:
            raise too_large_error(limit)
        if not member.eof:
            raise DecompressionError("the batch ends inside a gzip member")
        left -= len(part)
        parts.append(part)
        chunk = GZIP_CHUNK
    return parts[0] if len(parts) == 1 else join(parts)


def _begins_member(data: memoryview, at: int) -> bool:
    """Whether Java reads another member there (GZIPInputStream.readTrailer): it ignores all bytes after a member that
    are too few, or no valid header."""
    if len(data) - at < MIN_GZIP_MEMBER or data[at : at + len(GZIP_START)] != GZIP_START:
        return False
    flags, end = data[at + 3], at + GZIP_HEADER
    if flags & FEXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for _ in range(bool(flags & FNAME) + bool(flags & FCOMMENT)):
        end = _after_zero(data, end)
    if flags & FHCRC:
        given, end = int.from_bytes(data[end : end + 2], "little"), end + 2
        if given != zlib.crc32(data[at : end - 2]) & 0xFFFF:
            return False
    return end <= len(data)


def _after_zero(data: memoryview, at: int) -> int:
    """Where a text ends that begins there; after all data if it does not."""
    for start in range(at, len(data), GZIP_CHUNK):
        if (found := bytes(data[start : start + GZIP_CHUNK]).find(0)) >= 0:
            return start + found + 1
    return len(data) + 1


def _gzip_member(member: Any, data: memoryview, at: int, chunk: int, most: int) -> tuple[list[bytes], int]:
    """What the member at ``at`` holds, at most ``most`` bytes of it, and its end. It gets its input in chunks: it
    copies what is left of one after its end."""
    pieces: list[bytes] = []
    while not pieces or (at < len(data) and most > 0 and not member.eof):
        pieces.append(member.decompress(data[at : at + chunk], most))
        most -= len(pieces[-1])
        at += len(data[at : at + chunk]) - len(member.unused_data) - len(member.unconsumed_tail)
    return pieces, at


def _decompress_lz4(data: memoryview, limit: int) -> bytes:
    payload = decompress_blocks(data, limit)
    return payload if payload is not None else _decompress_lz4_frame(data, limit)


def _decompress_lz4_frame(data: memoryview, limit: int) -> bytes:
    context = lz4.frame.create_decompression_context()  # in 0.3 us; one that was kept would keep two blocks of 4 MB
    # The library allocates the maximum length: begin with an estimate, continue in chunks.
    part, used, is_end = lz4.frame.decompress_chunk(context, data, max_length=min(4 * len(data) + 4096, limit + 1))
    parts, total = [part], len(part)
    while not is_end and total <= limit:
        checkpoint()
        size = min(CHUNK, limit + 1 - total)
        part, more, is_end = lz4.frame.decompress_chunk(context, data[used:], max_length=size)
        if not part and not is_end:
            raise DecompressionError("the batch ends inside an lz4 frame")
        parts.append(part)
        used += more
        total += len(part)
    if total > limit:
        raise too_large_error(limit)
    if used < len(data):
        raise DecompressionError(f"{len(data) - used} bytes follow the lz4 frame")
    return parts[0] if len(parts) == 1 else join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return join((_snappy_block(data, limit, limit),))
    parts: list[bytes] = []
    left = limit
    for block in _xerial_blocks(data):
        _check_parts(len(parts) + 1, limit)
        parts.append(_snappy_block(block, left, limit))
        left -= len(parts[-1])
    return join(parts)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """magic (8 bytes), version, compatible version, then blocks: int32 length, raw snappy. A new stream may begin in
    place of a block."""
    at = 0
    while at < len(data):
        if data[at : at + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            at += len(XERIAL_HEADER)
            if at > len(data):
                raise DecompressionError("the batch ends inside the snappy header")
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if size > len(data) - at:
            raise DecompressionError(f"a snappy block has {size} bytes, {len(data) - at} left")
        yield data[at : at + size]
        at += size


def _snappy_block(data: memoryview, left: int, limit: int) -> Any:
    # The library allocates the size that the block announces: check it first.
    size = cramjam.snappy.decompress_raw_len(data)
    if size > left:
        raise too_large_error(limit)
    return cramjam.snappy.decompress_raw(data)


def _decompress_zstd(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    for frame, bound in _zstd_frames(data, MIN_ZSTD_BLOCKS + limit // ZSTD_BLOCK_BYTES):
        _check_parts(len(parts) + 1, limit)
        declared = zstandard.frame_content_size(frame)
        if declared > left:
            raise too_large_error(limit)
        parts.append(_zstd_frame(frame, bound, left, limit))
        left -= len(parts[-1])
    return parts[0] if len(parts) == 1 else join(parts)


def _zstd_frames(data: memoryview, max_blocks: int) -> Iterator[tuple[memoryview, int]]:
    """Each frame, and the maximum of its decompressed bytes (RFC 8878). Its blocks are walked, so it is complete."""
    at = blocks = 0
    while at < len(data) or not at:
        start = at
        if int.from_bytes(data[at : at + 4], "little") & ZSTD_SKIPPABLE_MASK == ZSTD_SKIPPABLE:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            blocks = _step(blocks, max_blocks)
            if at > len(data) and not start:  # after another frame Java takes it for the end
                raise DecompressionError("the batch ends inside a zstd frame")
            continue
        parameters = zstandard.get_frame_parameters(data[start:])
        at += zstandard.frame_header_size(data[start:])
        bound, is_last = 0, 0
        while not is_last:
            block = int.from_bytes(data[at : at + 3], "little")
            is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
            at += 3 + (1 if kind == ZSTD_RLE else size)
            bound += ZSTD_BLOCK
            blocks = _step(blocks, max_blocks)
            if at > len(data) or kind == ZSTD_RESERVED:
                raise DecompressionError("the batch ends inside a zstd frame")
        at += ZSTD_CHECKSUM_FLAG if parameters.has_checksum else 0
        if at > len(data):
            raise DecompressionError("the batch ends inside a zstd frame")
        yield data[start:at], bound


def _step(blocks: int, max_blocks: int) -> int:
    if blocks >= max_blocks:
        raise BatchTooLargeError(f"the batch has more than {max_blocks} zstd blocks")
    return blocks + 1


def _zstd_frame(frame: memoryview, bound: int, left: int, limit: int) -> bytes:
    try:
        decompressor = _ZSTD_DECOMPRESSORS.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        if bound <= left:
            return decompressor.decompress(frame, max_output_size=bound)
        parts, total = [], 0
        with decompressor.stream_reader(frame) as reader:
            while part := reader.read(CHUNK):
                checkpoint()
                total += len(part)
                if total > left:
                    raise too_large_error(limit)
                parts.append(part)
        return join(parts)
    finally:
        _keep(decompressor, _ZSTD_DECOMPRESSORS)


def _keep(context: Z, unused: list[Z]) -> None:
    if len(unused) < MAX_KEPT and context.memory_size() <= MAX_KEPT_BYTES:
        unused.append(context)


# Contexts that are not in use. They cost more than a small batch to create, and must not be shared between threads;
# list.pop is atomic.
_ZSTD_DECOMPRESSORS: list[zstandard.ZstdDecompressor] = []
_ZSTD_COMPRESSORS: list[zstandard.ZstdCompressor] = []
_LIBRARY_ERRORS: tuple[type[Exception], ...] = (
    zlib.error, gzip_library.error, RuntimeError, cramjam.DecompressionError, zstandard.ZstdError, EOFError,
)  # fmt: skip
_DECOMPRESS: dict[int, Callable[[memoryview, int], bytes]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}


def _compress_gzip(data: bytes) -> bytes:
    member = gzip_library.compressobj(wbits=GZIP_FORMAT)
    return bytes(member.compress(data) + member.flush())


def _compress_snappy(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for at in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _compress_lz4(data: bytes) -> bytes:
    # Java reads only independent blocks.
    frame: bytes = lz4.frame.compress(data, block_size=LZ4_BLOCK, block_linked=False, store_size=False)
    return frame


def _compress_zstd(data: bytes) -> bytes:
    try:
        compressor = _ZSTD_COMPRESSORS.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    compressed_data = compressor.compress(data)
    _keep(compressor, _ZSTD_COMPRESSORS)
    return compressed_data


_COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
