"""Buffers that become bytes."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.records.output_buffer import allocate, truncate, writable_view


@pytest.mark.parametrize("size", [2, 100, 600, 1 << 20])  # of which CPython allocates the smaller ones itself
def test_bytes_written_through_the_view_are_in_the_result(size: int) -> None:
    out = allocate(size)
    writable_view(out, size)[:] = b"ab" * (size // 2)

    assert truncate(out, size) == b"ab" * (size // 2)


@pytest.mark.parametrize("size", [0, 1, 99, 512])
def test_the_unused_end_is_truncated(size: int) -> None:
    out = allocate(600)
    writable_view(out, 600)[:] = b"x" * 600

    left = truncate(out, size)

    assert left == b"x" * size
    assert len(left) == size
    assert hash(left) == hash(b"x" * size)
    assert left + b"y" == b"x" * size + b"y"
    assert int(left.replace(b"x", b"1") or b"0") == int("1" * size or "0")  # reads up to the zero byte after the last
