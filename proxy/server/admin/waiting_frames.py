"""Whole frames that are counted several at once, for those who read the admin port.

Between two frames the CPU does other things: to count each as it comes takes ten times as long, nearly all of which is
waiting for the memory that the code of it is in.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_FRAMES, MAX_BYTES = 32, 512 << 10  # that wait


class WaitingFrames:
    """Frames of one API and version that are yet to be counted."""

    __slots__ = ("_bytes", "_count", "_frames")

    def __init__(self, count: Callable[[bytes, int, int], None]) -> None:
        """``count``: counts the frame data[start:end]."""
        self._count = count
        self._frames: list[tuple[bytes, int, int]] = []
        self._bytes = 0

    def add(self, data: bytes, start: int, end: int) -> bool:
        """Have the frame data[start:end] counted with others; whether none has waited."""
        is_first = not self._frames
        self._frames.append((data, start, end))
        self._bytes += len(data)
        if self._bytes > MAX_BYTES or len(self._frames) >= MAX_FRAMES:
            self.count()
        return is_first

    def count(self) -> None:
        """Count those that wait."""
        frames, self._frames, self._bytes = self._frames, [], 0
        for data, start, end in frames:
            self._count(data, start, end)
