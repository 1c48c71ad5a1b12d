"""Ways to spoil bytes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

# Lengths and counts that decoders stumble over: null, -2, the largest and the smallest, overlong varints.
_TOKENS = [
    bytes.fromhex(token)
    for token in (
        "00", "7f", "80", "ff", "ffff", "fffe", "7fff", "8000", "ffffffff", "fffffffe", "7fffffff", "80000000",
        "feffffff0f", "ffffffff0f", "ffffffff7f", "ffffffffff", "80808080808001", "8001", "ff7f",
    )
]  # fmt: skip


def mutated(random: Random, data: bytes, other: bytes) -> bytes:
    """``data`` spoilt one to four times; ``other`` is something to cross it with."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_WAYS)(random, data, other)
    return data


def _flip(random: Random, data: bytes, other: bytes) -> bytes:
    at = _position(random, data)
    return data[:at] + bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _overwrite(random: Random, data: bytes, other: bytes) -> bytes:
    at, token = _position(random, data), random.choice(_TOKENS)
    return data[:at] + token + data[at + len(token) :]


def _insert(random: Random, data: bytes, other: bytes) -> bytes:
    at = _position(random, data)
    return data[:at] + random.choice((*_TOKENS, random.randbytes(3))) + data[at:]


def _delete(random: Random, data: bytes, other: bytes) -> bytes:
    at = _position(random, data)
    return data[:at] + data[at + random.choice((1, 1, 2, 4, 20)) :]


def _cut(random: Random, data: bytes, other: bytes) -> bytes:
    return data[: _position(random, data)]


def _cross(random: Random, data: bytes, other: bytes) -> bytes:
    return data[: _position(random, data)] + other[_position(random, other) :]


def _repeat(random: Random, data: bytes, other: bytes) -> bytes:
    at = _position(random, data)
    return data[:at] + data[at : at + 8] * random.choice((2, 50, 500)) + data[at:]


def _position(random: Random, data: bytes) -> int:
    """Somewhere in ``data``; often near its start, where the lengths are."""
    return random.randint(0, min(len(data), random.choice((16, 100, 10**6))))


_WAYS: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (
    _flip, _overwrite, _overwrite, _insert, _delete, _cut, _cross, _repeat,
)  # fmt: skip
