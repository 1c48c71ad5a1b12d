"""The header `_lmr`: round trips, its bytes, and pointers that are rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.back_pointers import MAX_OFFSET, BackPointers

TOPIC = bytes(range(16))
OFFSETS = st.lists(st.integers(0, MAX_OFFSET), max_size=20).map(tuple)
WRITTEN = "01" + TOPIC.hex() + "89abcdef" + "08" + "c801" + "02" + "02" + "03"


def test_offsets_are_written_as_differences() -> None:
    pointers = BackPointers(TOPIC, 0x89ABCDEF, (100, 101, 102, 100))
    assert pointers.encode().hex() == WRITTEN
    assert BackPointers.decode(bytes.fromhex(WRITTEN), 4) == pointers


@given(st.builds(BackPointers, st.binary(min_size=16, max_size=16), st.integers(0, (1 << 32) - 1), OFFSETS))
def test_all_pointers_are_read_as_they_were_written(pointers: BackPointers) -> None:
    assert BackPointers.decode(pointers.encode(), len(pointers.offsets)) == pointers


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "shorter than 21 bytes"),
        (bytes.fromhex(WRITTEN)[:20], "shorter than 21 bytes"),
        (bytes.fromhex("02" + WRITTEN[2:]), "unknown version 2"),
        (bytes.fromhex(WRITTEN)[:-1], "announces 4 slices|ends inside"),
        (bytes.fromhex(WRITTEN) + b"\0", "1 bytes after"),
        (bytes.fromhex(WRITTEN[:-2] + "ff"), "ends inside"),
        (bytes.fromhex(WRITTEN[:-2]) + b"\xff" * 10, "too long"),
        (BackPointers(TOPIC, 1, (5, -1)).encode(), "points to the offset -1"),
        (BackPointers(TOPIC, 1, (1 << 62, 1 << 63)).encode(), "points to the offset"),
        (BackPointers(TOPIC, 1, (1, 2, 3, 4, 5)).encode(), "announces 5 slices, at most 4"),
        (bytes.fromhex(WRITTEN[:42] + "01"), "announces -1"),
    ],
)
def test_what_is_no_list_of_offsets_is_rejected(data: bytes | None, problem: str) -> None:
    with pytest.raises(CodecError, match=problem):
        BackPointers.decode(data, 4)


@given(st.binary(max_size=60))
def test_bytes_raise_nothing_but_codec_errors(data: bytes) -> None:
    try:
        pointers = BackPointers.decode(b"\1" + data, 100)
    except CodecError:
        return
    assert len(pointers.offsets) <= 100
