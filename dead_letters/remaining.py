"""Letters of one partition that are not replayed yet, as the offset and the metadata that a group commits for it.

The offset is after the last letter that was replayed. The metadata say which before it were not: a bitmap from the
first of them on, compressed. Brokers keep 4096 bytes of metadata (offset.metadata.max.bytes).
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field

MAX_METADATA = 4096
MAX_BITMAP = 32 << 20  # bytes: 268 million letters
FORM = "1"  # of the metadata


class RemainingError(ValueError):
    """What a group has committed was written by something else."""


@dataclass(slots=True)
class Remaining:
    """All offsets from ``end`` on, and those before it that have their bit."""

    end: int = 0
    _base: int = 0  # the offset of the first bit
    _bits: bytearray = field(default_factory=bytearray)

    @classmethod
    def decode(cls, offset: int, metadata: str | None) -> Remaining:
        """What a group has committed; -1: nothing yet. Raises RemainingError."""
        end = max(offset, 0)
        if not metadata:
            return cls(end)
        try:
            form, base, packed = metadata.split(":")
            unpacking = zlib.decompressobj()
            bits = unpacking.decompress(b64decode(packed, validate=True), MAX_BITMAP)
            if form != FORM or not 0 <= int(base) <= end or unpacking.unconsumed_tail:
                raise RemainingError("it has another form")
        except (ValueError, zlib.error) as error:  # also of base64
            raise RemainingError("its metadata are not those of a replay") from error
        return cls(end, int(base), bytearray(bits))

    def encode(self) -> str:
        """The metadata; longer than MAX_METADATA where too many letters are left in no order."""
        bits = self._before_end()
        kept = bits.lstrip(b"\0")
        if not kept:
            return ""
        base = self._base + 8 * (len(bits) - len(kept))
        return f"{FORM}:{base}:{b64encode(zlib.compress(kept.rstrip(bytes(1)), 9)).decode()}"

    @property
    def first(self) -> int:
        """The first letter that may be left."""
        bits = self._before_end()
        kept = bits.lstrip(b"\0")
        if not kept:
            return self.end
        byte = kept[0]
        return self._base + 8 * (len(bits) - len(kept)) + (byte & -byte).bit_length() - 1

    def __contains__(self, offset: int) -> bool:
        if offset >= self.end:
            return True
        at, bit = self._place(offset)
        return 0 <= at < len(self._bits) and bool(self._bits[at] & bit)

    def leave(self, offset: int) -> None:
        """It stays, whatever of those after it is replayed."""
        if not self._bits:
            self._base = offset
        at, bit = self._place(offset)
        if at < 0:
            self._bits[:0] = bytes(-at)
            self._base += 8 * at
            at = 0
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 - len(self._bits)))
        self._bits[at] |= bit

    def replayed(self, offset: int) -> None:
        """It is replayed. What is between ``end`` and it and was not left counts as replayed, too."""
        at, bit = self._place(offset)
        if 0 <= at < len(self._bits):
            self._bits[at] &= ~bit
        self.end = max(self.end, offset + 1)

    def forget_before(self, offset: int) -> None:
        """What is deleted from the topic cannot be replayed."""
        at, bit = self._place(offset)
        if at >= 0:
            kept = self._bits[at:]
            if kept:
                kept[0] &= ~(bit - 1) & 0xFF
            self._base, self._bits = self._base + 8 * at, kept
        self.end = max(self.end, offset)

    def _before_end(self) -> bytearray:
        """The bits that say something: all from ``end`` on are left."""
        whole, rest = divmod(max(self.end - self._base, 0), 8)
        bits = self._bits[: whole + 1]
        if len(bits) > whole:
            bits[whole] &= (1 << rest) - 1
        return bits

    def _place(self, offset: int) -> tuple[int, int]:
        at, bit = divmod(offset - self._base, 8)
        return at, 1 << bit
