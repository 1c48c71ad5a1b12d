"""Small payloads that hold a gigabyte of zeros, or 128 MB: one for each codec."""

from __future__ import annotations

import zlib

import cramjam
import lz4.frame
import zstandard

GIB = 1 << 30
CHUNK = bytes(1 << 20)


def gzip_of_zeros() -> bytes:
    member = zlib.compressobj(9, wbits=31)
    begin = member.compress(b"") + member.flush(zlib.Z_FULL_FLUSH)
    chunk = member.compress(CHUNK) + member.flush(zlib.Z_FULL_FLUSH)  # depends on nothing before it
    return begin + chunk * (GIB // len(CHUNK)) + member.flush()


def xerial_of_zeros() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(CHUNK))
    header = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    return header + (len(block).to_bytes(4, "big") + block) * 128


def lz4_of_zeros() -> bytes:
    frame = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False)
    parts = [frame.begin(), *(frame.compress(CHUNK) for _ in range(GIB // len(CHUNK))), frame.flush()]
    return b"".join(parts)


def zstd_of_zeros(window_log: int = 19) -> bytes:
    """``window_log``: 19 to 27, for windows of half a megabyte, as of level 1, to 128 MB."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return b"".join(frame.compress(CHUNK) for _ in range(GIB // len(CHUNK))) + frame.flush()
