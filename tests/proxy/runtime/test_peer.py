"""A peer that has closed is noticed without reading from it."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

import pytest
from support.in_process import until

from kafka_sidecar.proxy.runtime import peer
from kafka_sidecar.proxy.runtime.peer import has_closed


class Paused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        asyncio.get_running_loop().call_soon(transport.pause_reading)  # type: ignore[attr-defined]


async def accepted() -> tuple[asyncio.Transport, socket.socket]:
    """A connection that is not read, and its peer."""
    loop, protocol = asyncio.get_running_loop(), Paused()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, ours)
    await until(lambda: not transport.is_reading())
    return transport, other


@pytest.mark.parametrize("unread", [b"", b"unread"])
@pytest.mark.parametrize("by_reset", [False, True])
async def test_a_peer_that_has_closed_is_noticed(unread: bytes, by_reset: bool) -> None:
    transport, other = await accepted()
    other.sendall(unread)
    assert not has_closed(transport)
    if by_reset:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    await until(lambda: has_closed(transport))
    transport.abort()
    assert not has_closed(transport)  # it is closing: there is nothing left to notice


async def test_where_the_system_does_not_say_nothing_has_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "TCP_INFO", None)
    transport, other = await accepted()
    other.close()
    assert not has_closed(transport)
    assert not has_closed(None)
    with suppress(OSError):
        transport.abort()
