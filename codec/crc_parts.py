"""CRC-32C of parts that follow each other, from the checksums of the others: megabytes are read once.

A checksum is a remainder of polynomials: bytes that follow multiply it by a power of x, and leave it by the inverse of
that power. Nothing here reads the bytes themselves.

This file runs as it is and compiled (crc_parts.pxd holds the C types).
"""

from __future__ import annotations

from functools import lru_cache

POLYNOMIAL = 0x82F63B78  # of CRC-32C (RFC 3720), the highest power in the lowest bit
ONE, X = 1 << 31, 1 << 30  # as polynomials in that order
ORDER = (1 << 31) - 1  # x to this power is 1: the polynomial is x + 1 times one of degree 31, which is primitive
_POLYNOMIAL, _ONE = POLYNOMIAL, ONE  # for C


def joined(first: int, second: int, size: int) -> int:
    """The checksum of bytes whose checksum is ``first``, and of ``size`` bytes after them with that of ``second``."""
    return _multiply(first, _power(size)) ^ second


def without_start(whole: int, start: int, size: int) -> int:
    """The checksum of the last ``size`` bytes of a whole, where ``start`` is that of all before them."""
    return _multiply(start, _power(size)) ^ whole


def without_end(whole: int, end: int, size: int) -> int:
    """The checksum of a whole without its last ``size`` bytes, whose checksum is ``end``."""
    return _multiply(whole ^ end, _power(-size))


@lru_cache(1024)
def _power(size: int) -> int:
    """x to the power of the bits of so many bytes; of fewer than none: its inverse."""
    exponent, power, square = size * 8 % ORDER, ONE, X
    while exponent:
        if exponent & 1:
            power = _multiply(power, square)
        square = _multiply(square, square)
        exponent >>= 1
    return power


def _multiply(one: int, other: int) -> int:
    """The product of two polynomials, modulo that of CRC-32C."""
    product, bit = 0, _ONE
    while bit:
        if one & bit:
            product ^= other
        other = (other >> 1) ^ _POLYNOMIAL if other & 1 else other >> 1
        bit >>= 1
    return product
