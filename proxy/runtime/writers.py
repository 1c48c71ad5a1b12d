"""Where the bytes for a peer are written to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from kafka_sidecar.codec.wire import Buffer

PIECE_BYTES = 64 << 10  # of equal pieces, at least


class Writer(Protocol):
    def write(self, data: Buffer) -> None: ...

    def writelines(self, pieces: Iterable[Buffer]) -> None: ...


class _Nowhere:
    """Takes what a peer that has gone would have read."""

    def write(self, data: Buffer) -> None:
        pass

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        pass


NOWHERE = _Nowhere()


class InPieces:
    """A transport with TLS, where each write is copied three times on its way through OpenSSL: in small pieces from one
    copy to the next in the processor's cache.
    """

    __slots__ = ("_write",)

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._write = transport.write

    def write(self, data: Buffer) -> None:
        count = len(data) // PIECE_BYTES
        if count <= 1:
            self._write(data)
            return
        view, size = memoryview(data), -(-len(data) // count)
        for at in range(0, len(view), size):
            self._write(view[at : at + size])

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        for piece in pieces:
            self.write(piece)


def writer_of(transport: asyncio.WriteTransport | None) -> Writer:
    """What to write to; a peer without a transport has gone."""
    if transport is None:
        return NOWHERE
    return transport if transport.get_extra_info("sslcontext") is None else InPieces(transport)
