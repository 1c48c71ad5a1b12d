"""The CRC-32C of two parts together, from that of each: none of their bytes is read again.

As `crc32_combine` of zlib: polynomials modulo that of CRC-32C, the highest power in the lowest bit.
"""

from __future__ import annotations

from functools import lru_cache

POLYNOMIAL = 0x82F63B78
_ONE, _X = 1 << 31, 1 << 30
_BITS_A_BYTE = 8


def joined_crc(first: int, second: int, size: int) -> int:
    """
    Args:
        first: CRC-32C of the first part.
        second: of the second one.
        size: bytes of the second one.

    >>> from crc32c import crc32c
    >>> joined_crc(crc32c(b"large "), crc32c(b"message"), 7) == crc32c(b"large message")
    True
    """
    return _product(_power(size), first) ^ second


@lru_cache(256)  # most segments have the same size
def _power(size: int) -> int:
    """x to as many as ``size`` bytes have bits."""
    left, square, found = size * _BITS_A_BYTE, _X, _ONE
    while left:
        if left & 1:
            found = _product(square, found)
        square = _product(square, square)
        left >>= 1
    return found


def _product(one: int, other: int) -> int:
    found, bit = 0, _ONE
    while one:
        if one & bit:
            found ^= other
            one ^= bit
        bit >>= 1
        other = other >> 1 ^ POLYNOMIAL if other & 1 else other >> 1
    return found
