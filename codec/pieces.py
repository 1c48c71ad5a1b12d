"""Frames in pieces: a copy of megabytes into one object takes longer than sending them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.wire import Buffer

MIN_PIECE_BYTES = 64 << 10  # smaller ones are joined with their neighbours: each piece costs a part of a system call
MIN_BYTES = 1 << 20  # a smaller frame is one object


@dataclass(frozen=True, slots=True)
class Pieces:
    """A frame of at least MIN_BYTES; the pieces follow each other without a gap."""

    parts: tuple[Buffer, ...]

    def __len__(self) -> int:
        """Bytes of the frame."""
        return sum(map(len, self.parts))


def in_pieces(parts: Iterable[Buffer]) -> bytes | Pieces:
    """A frame of these parts, which are not copied if they are large."""
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) < MIN_PIECE_BYTES:
            small.append(part)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(part)
    if small:
        pieces.append(b"".join(small))
    if len(pieces) == 1 and isinstance(pieces[0], bytes):
        return pieces[0]
    frame = Pieces(tuple(pieces))
    return frame if len(frame) >= MIN_BYTES else whole(frame)


def whole(frame: bytes | Pieces) -> bytes:
    """The frame as one object."""
    return join(frame.parts) if isinstance(frame, Pieces) else frame
