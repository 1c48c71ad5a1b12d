"""Frames of lz4 whose blocks are decompressed one by one: the same bytes as the frame API gives, or none at all."""

from __future__ import annotations

from random import Random

import lz4.block
import lz4.frame
import pytest
from fuzz.mutations import mutated
from hypothesis import given
from hypothesis import strategies as some

from kafka_sidecar.codec.records.compression import Codec, compress
from kafka_sidecar.codec.records.lz4_blocks import BLOCK_BYTES, RAW, START, decompress_blocks

LIMIT = 1 << 20
END = bytes(4)


def decompressed(data: bytes, limit: int = LIMIT) -> bytes | None:
    return decompress_blocks(memoryview(data), limit)


def block(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    return len(packed).to_bytes(4, "little") + packed


def raw(data: bytes) -> bytes:
    return (len(data) | RAW).to_bytes(4, "little") + data


TEXT = Random(1).randbytes(5000).hex().encode()  # shrinks to half or so
READ = {
    "nothing": (START + END, b""),
    "one block": (START + block(TEXT) + END, TEXT),
    "blocks that are not full": (START + block(TEXT) + block(b"short") + END, TEXT + b"short"),
    "a block that is not compressed": (START + raw(b"plain") + END, b"plain"),
    "all kinds": (START + block(TEXT) + raw(b"plain") + block(b"") + block(TEXT) + END, TEXT + b"plain" + TEXT),
}


@pytest.mark.parametrize(("frame", "expected"), READ.values(), ids=READ)
def test_frames_of_independent_blocks_are_decompressed(frame: bytes, expected: bytes) -> None:
    assert lz4.frame.decompress(frame) == expected
    assert decompressed(frame) == expected


@pytest.mark.parametrize("size", [1, 1000, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES + 7])
@pytest.mark.parametrize("random", [True, False])
def test_our_own_frames_and_those_of_clients_are_decompressed(size: int, random: bool) -> None:
    data = Random(1).randbytes(size) if random else Random(1).randbytes(size).hex().encode()[:size]
    frame = compress(Codec.LZ4, data)

    assert frame.startswith(START)
    assert decompressed(frame) == data


OTHERS = {
    "linked blocks": {"block_linked": True, "block_size": lz4.frame.BLOCKSIZE_MAX64KB},
    "larger blocks": {"block_linked": False, "block_size": lz4.frame.BLOCKSIZE_MAX256KB},
    "its size": {"block_linked": False, "store_size": True},
    "a checksum": {"block_linked": False, "content_checksum": True},
    "a checksum of each block": {"block_linked": False, "block_checksum": True},
}


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_other_frames_are_left_to_the_frame_api(options: dict[str, int]) -> None:
    frame = lz4.frame.compress(TEXT * 10, **{"store_size": False, **options})

    assert decompressed(frame) is None


def test_a_truncated_frame_or_one_with_trailing_bytes_is_left_to_the_frame_api() -> None:
    frame = START + block(TEXT) + raw(b"plain") + END

    assert decompressed(frame + b"\0") is None
    assert decompressed(frame + frame) is None
    for size in range(len(frame)):
        assert decompressed(frame[:size]) is None


@pytest.mark.parametrize(
    "frame",
    [
        START + (20).to_bytes(4, "little") + b"\xff" * 20 + END,
        START + block(bytes(BLOCK_BYTES + 1)) + END,
        START + raw(bytes(BLOCK_BYTES + 1)) + END,
        START + (RAW - 1).to_bytes(4, "little") + END,
    ],
    ids=["no block", "more than a block may hold", "more than a block may have", "more than there is"],
)
def test_an_invalid_block_is_left_to_the_frame_api(frame: bytes) -> None:
    assert decompressed(frame) is None
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(frame)


def test_a_frame_that_may_exceed_the_limit_is_left_to_the_frame_api() -> None:
    assert decompressed(START + block(TEXT) + END, limit=BLOCK_BYTES) == TEXT
    assert decompressed(START + block(TEXT) + END, limit=BLOCK_BYTES - 1) is None
    assert decompressed(START + raw(b"plain") + END, limit=5) == b"plain"
    assert decompressed(START + raw(b"plain") + END, limit=4) is None


def test_no_memory_is_allocated_for_full_blocks_if_blocks_are_tiny() -> None:
    assert decompressed(START + block(b"x") + END) == b"x"
    assert decompressed(START + block(b"x") * 100 + END, limit=100 * BLOCK_BYTES) is None
    assert decompressed(START + block(bytes(BLOCK_BYTES)) * 10 + END) is None  # would be worth it, but looks the same


@given(seed=some.integers(0, 2**32))
def test_corrupt_frames_give_the_result_of_the_frame_api_or_are_left_to_it(seed: int) -> None:
    random = Random(seed)
    text = random.randbytes(60) * random.randrange(1, 3000)
    frame = compress(Codec.LZ4, text) if seed % 2 else START + block(text[:500]) + raw(text[:99]) + END
    for _ in range(5):
        data = mutated(random, frame, frame)
        found = decompressed(data)
        assert found is None or found == lz4.frame.decompress(data)


def test_a_view_of_bytes_that_are_not_contiguous_is_left_to_the_frame_api() -> None:
    frame = START + raw(b"plain") + END

    assert decompress_blocks(memoryview(bytes(byte for byte in frame for _ in range(2)))[::2], LIMIT) in (
        None,
        b"plain",
    )
