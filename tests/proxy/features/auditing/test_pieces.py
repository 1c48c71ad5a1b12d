"""Small frames put together."""

from __future__ import annotations

from kafka_sidecar.proxy.features.auditing.pieces import MAX_FRAME_BYTES, Pieces


def test_a_whole_frame_is_not_copied() -> None:
    data = b"before frame after"
    assert Pieces().add(data, 7, 12, True) == (data, 7, 12)


def test_pieces_are_put_together() -> None:
    pieces = Pieces()
    assert pieces.add(b"xfrax", 1, 4, False) is None
    assert pieces.add(b"me", 0, 2, True) == (b"frame", 0, 5)


def test_a_frame_that_is_too_long_is_empty() -> None:
    pieces = Pieces()
    for _ in range(3):
        assert pieces.add(bytes(MAX_FRAME_BYTES // 2), 0, MAX_FRAME_BYTES // 2, False) is None
    assert pieces.add(b"end", 0, 3, True) == (b"", 0, 0)
