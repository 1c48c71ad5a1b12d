"""Compression and decompression: our data and that of other implementations, within the size limit."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
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
from kafka_sidecar.codec.records import compression
from kafka_sidecar.codec.records.compression import (
    MAX_KEPT,
    MAX_KEPT_BYTES,
    MIN_PARTS,
    MIN_ZSTD_BLOCKS,
    PART_BYTES,
    XERIAL_HEADER,
    BatchTooLargeError,
    Codec,
    DecompressionError,
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


WINDOWS = """
from concurrent.futures import ThreadPoolExecutor
import zstandard
from kafka_sidecar.codec.records import compression
from kafka_sidecar.codec.records.compression import Codec, compress, decompress

large = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
frame = zstandard.ZstdCompressor(compression_params=large).compressobj()
frame = frame.compress(bytes(8 << 20)) + frame.flush()
lz4 = compression.lz4.frame.compress(bytes(8 << 20), block_size=7, store_size=False)

def both(codec):
    data = frame if codec == Codec.ZSTD else lz4
    return len(decompress(codec, memoryview(data), 8 << 20)) + len(compress(codec, bytes(8 << 20)))

with ThreadPoolExecutor(12) as pool:
    list(pool.map(both, [Codec.ZSTD] * 12 + [Codec.LZ4] * 4))
kept = [*compression._ZSTD_DECOMPRESSORS, *compression._ZSTD_COMPRESSORS]
print(len(kept), sum(context.memory_size() for context in kept) >> 20)
"""


def test_contexts_that_are_kept_are_few_and_hold_no_large_windows() -> None:
    done = subprocess.run([sys.executable, "-c", WINDOWS], capture_output=True, text=True, timeout=60, check=True)

    count, size_mb = map(int, done.stdout.split())
    assert count <= 2 * MAX_KEPT
    assert size_mb <= 2 * MAX_KEPT * MAX_KEPT_BYTES >> 20


def test_of_many_contexts_that_are_given_back_at_once_few_are_kept() -> None:
    unused: list[zstandard.ZstdDecompressor] = []
    for _ in range(3 * MAX_KEPT):
        compression._keep(zstandard.ZstdDecompressor(), unused)
    assert len(unused) == MAX_KEPT


def test_the_context_for_what_java_writes_is_kept() -> None:
    """A new one takes ten times as long as a small batch."""
    frame = zstandard.ZstdCompressor(level=3).compressobj()  # the size is not known: a window of 2 MB
    data = frame.compress(TEXT) + frame.flush()
    inflated(Codec.ZSTD, data)
    (*_, kept) = compression._ZSTD_DECOMPRESSORS
    inflated(Codec.ZSTD, data)
    assert compression._ZSTD_DECOMPRESSORS[-1] is kept
    assert kept.memory_size() > 2 << 20


MANY_PARTS = {  # so many members, blocks or frames of one byte
    "gzip members": (Codec.GZIP, lambda parts: gzip.compress(b"a") * parts),
    "snappy blocks": (Codec.SNAPPY, lambda parts: XERIAL_HEADER + snappy_blocks(b"a") * parts),
    "zstd frames": (Codec.ZSTD, lambda parts: zstd(b"a") * parts),
}


@pytest.mark.parametrize(("codec", "many"), MANY_PARTS.values(), ids=MANY_PARTS)
@pytest.mark.parametrize("limit", [LIMIT, 8 * LIMIT])
def test_parts_of_a_batch_are_limited_in_proportion_to_its_bytes(
    codec: Codec, many: Callable[[int], bytes], limit: int
) -> None:
    parts = MIN_PARTS + limit // PART_BYTES
    assert inflated(codec, many(parts), limit) == b"a" * parts
    with pytest.raises(BatchTooLargeError, match=f"more than {parts} compressed parts"):
        inflated(codec, many(parts + 1), limit)


@pytest.mark.parametrize(
    ("codec", "empty"),
    [
        (Codec.GZIP, gzip.compress(b"")), (Codec.SNAPPY, snappy_blocks(b"")), (Codec.ZSTD, zstd(b"")),
        (Codec.SNAPPY, b"\0\0\0\1\0"),
    ],
    ids=["gzip member", "snappy blocks", "zstd frame", "snappy block"],  # gzip writes the time
)  # fmt: skip
def test_empty_parts_count(codec: Codec, empty: bytes) -> None:
    start = XERIAL_HEADER if codec is Codec.SNAPPY else b""
    with pytest.raises(BatchTooLargeError, match="compressed parts"):
        inflated(codec, start + empty * (2 * MIN_PARTS))


@given(
    members=some.lists(some.integers(0, 70_000), min_size=1, max_size=5), seed=some.integers(0, 2**32), cut=some.data()
)
def test_gzip_members_of_any_size_are_read_one_after_the_other(
    members: list[int], seed: int, cut: some.DataObject
) -> None:
    random = Random(seed)
    data = [random.randbytes(size) for size in members]
    whole, compressed = b"".join(data), b"".join(gzip.compress(one, random.choice([0, 1, 9])) for one in data)
    assert inflated(Codec.GZIP, compressed, len(whole)) == whole
    if whole:
        with pytest.raises(BatchTooLargeError):
            inflated(Codec.GZIP, compressed, len(whole) - 1)
    at = cut.draw(some.integers(0, len(compressed) - 1))
    with suppress(CodecError):
        assert whole.startswith(inflated(Codec.GZIP, compressed[:at], len(whole)))


def test_blocks_of_a_zstd_frame_are_limited() -> None:
    def frame(blocks: int) -> bytes:
        """One frame of this many empty blocks before the last one."""
        return bytes.fromhex("28b52ffd0058") + bytes(3) * blocks + b"\1\0\0"

    assert inflated(Codec.ZSTD, frame(1000)) == b""
    with pytest.raises(BatchTooLargeError, match="zstd blocks"):
        inflated(Codec.ZSTD, frame(MIN_ZSTD_BLOCKS + LIMIT // 512))


def test_an_lz4_frame_of_many_tiny_blocks_is_decompressed() -> None:
    raw = (1 | 1 << 31).to_bytes(4, "little") + b"a"
    frame = bytes.fromhex("04224d18604082") + raw * 5000 + bytes(4)
    assert inflated(Codec.LZ4, frame) == b"a" * 5000


def member(data: bytes, flags: int = 0, more: bytes = b"") -> bytes:
    """A gzip member with these flags in its header, and what they announce."""
    whole = gzip.compress(data, mtime=0)
    return whole[:3] + bytes([flags]) + whole[4:10] + more + whole[10:]


FEXTRA, FNAME, FCOMMENT, FHCRC = 4, 8, 16, 2
HEAD = member(b"", FNAME | FHCRC, b"name\0")[:15]
# What follows a member, and what Java reads of it (GZIPInputStream, Java 17 and 21).
AFTER = {
    "zeros": (bytes(100), b""),
    "a few bytes": (b"garbage", b""),
    "18 bytes of a member": (member(b"more")[:18], b""),
    "a header that ends early": (member(b"more")[:3] + bytes([FNAME]) + b"x" * 100, b""),
    "another method": (b"\x1f\x8b\x07" + bytes(30), b""),
    "a wrong checksum of the header": (HEAD + b"\0\0" + member(b"more")[10:], b""),
    "a member": (member(b"more"), b"more"),
    "a member and zeros": (member(b"more") + bytes(100), b"more"),
    "a member with a name": (member(b"more", FNAME, b"name\0"), b"more"),
    "a member with all of it": (member(b"more", FEXTRA | FNAME | FCOMMENT, b"\2\0abname\0comment\0"), b"more"),
    "a member with a checksum of its header": (
        HEAD + (zlib.crc32(HEAD) & 0xFFFF).to_bytes(2, "little") + member(b"more")[10:], b"more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AFTER)
def test_bytes_after_a_gzip_member_are_read_as_java_reads_them(name: str) -> None:
    after, more = AFTER[name]
    assert inflated(Codec.GZIP, member(b"data") + after) == b"data" + more


@pytest.mark.parametrize("damaged", [member(b"more" * 99)[:-9], member(b"more" * 99)[:-8] + bytes(8)])
def test_a_further_gzip_member_that_is_damaged_is_an_error(damaged: bytes) -> None:
    with pytest.raises(DecompressionError):
        inflated(Codec.GZIP, member(b"data") + damaged)


def test_names_of_gzip_members_are_not_searched_again_and_again() -> None:
    one = member(b"", FNAME, b"n" * 4000 + b"\0")
    began = time.perf_counter()
    assert inflated(Codec.GZIP, one * 1000 + member(b"data") + one[:-100]) == b"data"
    assert time.perf_counter() - began < 2.0


def skippable(data: bytes, magic: int = 0x184D2A50) -> bytes:
    return magic.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize("magic", [0x184D2A50, 0x184D2A5F])
def test_skippable_frames_of_zstd_are_skipped_wherever_they_are(magic: int) -> None:
    skip = skippable(b"metadata", magic)
    assert inflated(Codec.ZSTD, skip + zstd(b"data") + skip + skippable(b"") + zstd(b"more") + skip) == b"datamore"
    assert inflated(Codec.ZSTD, skip) == b""


@pytest.mark.parametrize(
    "data", [skippable(b"metadata")[:3], skippable(b"")[:7], skippable(b"metadata")[:-1], skippable(b"", 0x184D2A60)]
)
def test_a_first_skippable_frame_that_ends_early_is_an_error(data: bytes) -> None:
    with pytest.raises(DecompressionError):
        inflated(Codec.ZSTD, data)


def test_a_later_skippable_frame_that_ends_early_is_the_end() -> None:
    for end in (skippable(b"metadata")[:-1], skippable(b"")[:7], skippable(b"")[:4]):
        assert inflated(Codec.ZSTD, zstd(b"data") + end) == b"data"


def test_skippable_frames_are_limited() -> None:
    with pytest.raises(BatchTooLargeError, match="zstd blocks"):
        inflated(Codec.ZSTD, skippable(b"") * 1_000_000 + zstd(b"data"))
