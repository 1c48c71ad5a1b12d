"""Values of 1 KB to 20 MB, each of which says who sent it, and proves with a CRC that it is whole."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from zlib import crc32

MB = 1 << 20
LARGEST = 20 * MB


@dataclass(frozen=True, slots=True, order=True)
class Mixed:
    """One value: a sender's name and the number that it gave, which says how many bytes, and which."""

    sender: str
    number: int

    @property
    def size(self) -> int:
        if self.number % 500 == 250:
            return LARGEST
        if self.number % 100 == 50:
            return 2 * MB + self.number
        return 300_000 + self.number if self.number % 20 == 10 else 1024 + self.number % 7000

    def build(self) -> bytes:
        room = self.size - len(self._start(0))
        noise = room // 4 if self.number % 3 == 0 else room
        body = bytes(memoryview(_noise())[self.number : self.number + noise]) + _text()[: room - noise]
        return self._start(crc32(body)) + body

    def _start(self, crc: int) -> bytes:
        return b"%s %d %d %08x|" % (self.sender.encode(), self.number, self.size, crc)

    @staticmethod
    def of(value: bytes | None) -> Mixed:
        """The one that a value is. Raises AssertionError where a byte is another."""
        whole = value or b""
        start, bar, body = whole[:100].partition(b"|")
        fields = start.split(b" ")
        assert bar, f"{len(whole)} bytes, which are no value of a sender: {whole[:60]!r}"
        assert len(fields) == 4, f"{len(whole)} bytes, which are no value of a sender: {whole[:60]!r}"
        found = Mixed(fields[0].decode(), int(fields[1]))
        assert len(whole) == found.size == int(fields[2]), f"{found} has {len(whole)} bytes"
        body = whole[len(start) + 1 :]
        assert crc32(body) == int(fields[3], 16), f"{found} is damaged"
        return found


@cache
def _noise() -> bytes:
    """What no codec makes smaller."""
    return random.Random(13).randbytes(LARGEST + 10_000)


@cache
def _text() -> bytes:
    """What every codec makes much smaller."""
    return (b"the same words again and again, " * (LARGEST // 32 + 1))[:LARGEST]
