"""Compression and decompression: our data and that of other implementations, within the size limit."""

from __future__ import annotations

import gzip
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random

import cramjam
import lz4.frame
import pytest
import zstandard
from fuzz.mutations import mutated
from hypothesis import given
from hypothesis import strategies as some

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records.compression import (
    XERIAL_HEADER,
    BatchTooLargeError,
    Codec,
    compress,
    decompress,
)

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the same again and again, " * 8000  # 200 KB: several blocks of every codec
LIMIT = 1 << 20


def inflated(codec: int, data: bytes, limit: int = LIMIT) -> bytes:
    return decompress(codec, memoryview(data), limit)


def zstd(data: bytes, *, write_checksum: bool = False, write_content_size: bool = True) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=write_checksum, write_content_size=write_content_size)
    return compressor.compress(data)


def snappy_blocks(*blocks: bytes) -> bytes:
    raw = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return b"".join(len(block).to_bytes(4, "big") + block for block in raw)


WRITTEN_BY_OTHERS = {
    "gzip, two members": (Codec.GZIP, gzip.compress(b"one, ") + gzip.compress(b"two")),
    "snappy, raw": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"one, two"))),
    "snappy, small blocks": (Codec.SNAPPY, XERIAL_HEADER + snappy_blocks(b"one", b", ", b"", b"two")),
    "snappy, two streams": (
        Codec.SNAPPY,
        XERIAL_HEADER + snappy_blocks(b"one, ") + XERIAL_HEADER + snappy_blocks(b"two"),
    ),
    "lz4, linked blocks": (Codec.LZ4, lz4.frame.compress(b"one, two", block_linked=True)),
    "lz4, with its size and checksums": (
        Codec.LZ4,
        lz4.frame.compress(b"one, two", store_size=True, content_checksum=True, block_checksum=True),
    ),
    "zstd, without its size": (Codec.ZSTD, zstd(b"one, two", write_content_size=False)),
    "zstd, with a checksum": (Codec.ZSTD, zstd(b"one, two", write_checksum=True)),
    "zstd, two frames": (Codec.ZSTD, zstd(b"one, ", write_content_size=False) + zstd(b"two")),
}


@pytest.mark.parametrize(("codec", "data"), WRITTEN_BY_OTHERS.values(), ids=WRITTEN_BY_OTHERS)
def test_compressed_data_of_other_implementations_is_decompressed(codec: Codec, data: bytes) -> None:
    assert inflated(codec, data) == b"one, two"
    assert inflated(codec, data, limit=8) == b"one, two"
    with pytest.raises(BatchTooLargeError):
        inflated(codec, data, limit=7)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["nothing", "one byte", "several blocks"])
def test_compressed_data_is_decompressed_to_the_same_bytes(codec: Codec, data: bytes) -> None:
    assert inflated(codec, compress(codec, data)) == data
    assert inflated(codec, compress(codec, data), limit=len(data)) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_that_fails_does_not_affect_the_next(codec: Codec) -> None:
    data = compress(codec, TEXT)

    for bad, limit in ((data[:-9], LIMIT), (bytes(99), LIMIT), (data, len(TEXT) // 2), (data[:40] + data, LIMIT)):
        with pytest.raises(CodecError):
            inflated(codec, bad, limit)
        assert inflated(codec, data) == TEXT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_batches_are_compressed_and_decompressed_in_several_threads(codec: Codec) -> None:
    def there_and_back(number: int) -> bool:
        data = b"%d, " % number * 30_000
        return inflated(codec, compress(codec, data)) == data

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(there_and_back, range(40)))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_compression_does_not_depend_on_earlier_data(codec: Codec) -> None:
    first = compress(codec, TEXT)
    compress(codec, bytes(LIMIT))

    assert compress(codec, TEXT) == first


def test_an_lz4_frame_that_nearly_fills_the_first_allocation_is_decompressed() -> None:
    random, differences = Random(1).randbytes(5000), set()
    for zeros in range(19_500, 19_800):
        data = random + bytes(zeros)
        frame = compress(Codec.LZ4, data)
        differences.add(len(data) - (4 * len(frame) + 4096))
        assert inflated(Codec.LZ4, frame) == data
    assert {-1, 0, 1} <= differences


def test_raw_snappy_stays_raw_for_clients_that_read_only_this_format() -> None:
    framed, raw = compress(Codec.SNAPPY, b"one"), bytes(cramjam.snappy.compress_raw(b"one"))

    assert cramjam.snappy.decompress_raw(compress(Codec.SNAPPY, TEXT, like=raw)) == cramjam.Buffer(TEXT)
    assert compress(Codec.SNAPPY, TEXT, like=framed) == compress(Codec.SNAPPY, TEXT)


def test_lz4_is_written_in_independent_blocks_of_64_kb_without_a_size() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))

    assert (info["block_linked"], info["block_size"], info["content_size"]) == (False, 64 << 10, 0)


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_over_the_limit_is_rejected(codec: Codec) -> None:
    with pytest.raises(BatchTooLargeError):
        inflated(codec, compress(codec, TEXT), limit=len(TEXT) - 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("with_size", [True, False])
def test_compressed_data_truncated_at_any_byte_is_rejected(codec: Codec, with_size: bool) -> None:
    data = zstd(b"some text " * 9, write_content_size=with_size) if codec == Codec.ZSTD else compress(codec, b"text")

    for size in range(len(data)):
        with pytest.raises(CodecError):
            inflated(codec, data[:size])


def test_a_truncated_snappy_block_is_rejected() -> None:
    data = compress(Codec.SNAPPY, b"some text")

    for size in (0, *range(17, len(data))):
        with pytest.raises(CodecError):
            inflated(Codec.SNAPPY, data[:size])


def test_bytes_after_an_lz4_frame_are_rejected_as_librdkafka_does() -> None:
    with pytest.raises(CodecError, match="1 bytes follow"):
        inflated(Codec.LZ4, compress(Codec.LZ4, b"text") + b"\0")


def test_a_snappy_block_with_a_declared_size_of_gigabytes_is_rejected_before_decompression() -> None:
    with pytest.raises(BatchTooLargeError):
        inflated(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc")


def test_a_zstd_frame_with_a_declared_size_over_the_limit_is_rejected_before_decompression() -> None:
    # magic, one segment with a size of 8 bytes, that size, an empty last block
    announced = bytes.fromhex("28b52ffd" + "e0") + (1 << 40).to_bytes(8, "little") + bytes.fromhex("010000")

    with pytest.raises(BatchTooLargeError):
        inflated(Codec.ZSTD, announced)


@given(codec=some.sampled_from(COMPRESSED), data=some.binary(max_size=80))
def test_random_bytes_are_decompressed_or_rejected(codec: Codec, data: bytes) -> None:
    with suppress(CodecError):
        assert len(inflated(codec, data, limit=1000)) <= 1000


@given(codec=some.sampled_from(COMPRESSED), seed=some.integers(0, 2**32))
def test_corrupt_data_is_decompressed_or_rejected(codec: Codec, seed: int) -> None:
    random = Random(seed)
    data = compress(codec, random.randbytes(50) * 20)
    for _ in range(5):
        try:
            assert len(inflated(codec, mutated(random, data, data), limit=2000)) <= 2000
        except CodecError:
            continue


BOMBS = """
import resource, sys, zlib
import cramjam, lz4.frame, zstandard
from kafka_sidecar.codec.records.compression import XERIAL_HEADER, BatchTooLargeError, Codec, decompress

zeros, limit = bytes(1 << 20), 16 << 20
gzip, zstd = zlib.compressobj(1, wbits=31), zstandard.ZstdCompressor().compressobj()
frame = lz4.frame.LZ4FrameCompressor()
block = bytes(cramjam.snappy.compress_raw(zeros))
bombs = {
    Codec.GZIP: b"".join([*(gzip.compress(zeros) for _ in range(256)), gzip.flush()]),
    Codec.SNAPPY: XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * 256,
    Codec.LZ4: b"".join([frame.begin(), *(frame.compress(zeros) for _ in range(256)), frame.flush()]),
    Codec.ZSTD: b"".join([*(zstd.compress(zeros) for _ in range(1024)), zstd.flush()]),
}
for codec, bomb in bombs.items():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        decompress(codec, memoryview(bomb), limit)
    except BatchTooLargeError:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(codec.name, len(bomb) >> 10, grown >> 10)
"""


def test_a_decompression_bomb_uses_no_more_memory_than_the_limit() -> None:
    # In a process of its own, whose peak is not that of other tests.
    done = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, timeout=60, check=True)

    grown_mb = {name: int(grown) for name, _, grown in map(str.split, done.stdout.splitlines())}
    assert set(grown_mb) == {codec.name for codec in COMPRESSED}
    assert max(grown_mb.values()) < 2 * 16 + 8, done.stdout
