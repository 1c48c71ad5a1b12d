"""Messages between the supervisor and one worker, over a socket pair that the worker inherits: it has no address.

The end of the channel is the end of the peer, however that died.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable
from struct import Struct
from typing import Any, cast

LENGTH = Struct(">I")


class Channel(asyncio.Protocol):
    """One end. Messages are values of messages.py."""

    def __init__(self, on_message: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._received = bytearray()
        self._ended = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, end: socket.socket, on_message: Callable[[Any], None], on_end: Callable[[], None]) -> Channel:
        """The channel of one of the two sockets."""
        end.setblocking(False)
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: cls(on_message, on_end), sock=end)
        return channel

    def send(self, message: object) -> None:
        """Nothing happens if the peer has ended."""
        if self._transport is not None:
            self._transport.write(self.encode(message))

    @staticmethod
    def encode(message: object) -> bytes:
        """A message with its length."""
        body = pickle.dumps(message)
        return LENGTH.pack(len(body)) + body

    async def close(self) -> None:
        """Returns once all is sent."""
        if self._transport is not None:
            self._transport.close()
        await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._received)
            end = LENGTH.size + size
            if len(self._received) < end:
                return
            body = bytes(self._received[LENGTH.size : end])
            del self._received[:end]
            self._on_message(pickle.loads(body))  # noqa: S301 - of a process of this program, over its own socket

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._ended.set()
        self._on_end()
