"""What is written to transports with TLS and without."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_sidecar.proxy.runtime.writers import NOWHERE, PIECE_BYTES, writer_of

DATA = bytes(range(256)) * 1000


class Transport(asyncio.Transport):
    def __init__(self, **extra: object) -> None:
        super().__init__(extra)
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))


def test_plaintext_is_written_at_once() -> None:
    transport = Transport()
    writer_of(transport).write(DATA)
    assert transport.written == [DATA]


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, len(DATA)])
def test_tls_is_written_in_pieces_that_make_the_same_bytes(size: int) -> None:
    transport = Transport(sslcontext=object())
    writer = writer_of(transport)
    writer.write(DATA[:size])
    writer.writelines([memoryview(DATA), b"end"])
    assert b"".join(transport.written) == DATA[:size] + DATA + b"end"
    assert max(map(len, transport.written)) < 2 * PIECE_BYTES
    assert min(map(len, transport.written[1:-1])) >= PIECE_BYTES - 1


def test_nothing_is_written_for_a_peer_that_has_gone() -> None:
    assert writer_of(None) is NOWHERE
    NOWHERE.write(DATA)
    NOWHERE.writelines([DATA])
