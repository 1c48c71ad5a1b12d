"""Small frames that arrive in pieces, put together."""

from __future__ import annotations

MAX_FRAME_BYTES = 4 << 20  # a longer one is not counted


class Pieces:
    """The pieces of one frame."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes, start: int, end: int, last: bool) -> tuple[bytes, int, int] | None:
        """Where the frame is once it is whole: bytes, start, end. A frame that is too long is empty then."""
        if last and not self._parts:
            return data, start, end
        self._size += end - start
        if self._size > MAX_FRAME_BYTES:
            self._parts = [b""]
        else:
            self._parts.append(data[start:end])
        if not last:
            return None
        frame = b"".join(self._parts)
        return frame, 0, len(frame)
