"""One header of a record (KIP-82).

This file runs as it is and compiled (header.pxd holds the C types).
"""

from __future__ import annotations


class Header:
    """One header of a record (KIP-82)."""

    __slots__ = ("key_bytes", "value")

    def __init__(self, key: str | bytes, value: bytes | None) -> None:
        self.key_bytes = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
        self.value = value

    @property
    def key(self) -> str:
        """The name; bytes that are not UTF-8 are kept as lone surrogates (PEP 383)."""
        return self.key_bytes.decode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Header):
            return NotImplemented
        return self.key_bytes == other.key_bytes and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.key_bytes, self.value))

    def __repr__(self) -> str:
        return f"Header({self.key!r}, {self.value!r})"


def header_of(key: bytes, value: bytes | None) -> Header:
    """A header, created without the constructor."""
    header = Header.__new__(Header)
    header.key_bytes = key
    header.value = value
    return header
