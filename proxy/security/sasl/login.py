"""Logs in to a broker on a connection that has just been opened, before anything else is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, log_in
from kafka_sidecar.proxy.security.sasl.credentials import Credentials

MAX_RESPONSE_BYTES = 64 << 10

# Sends a request's frame; the response's, with its length.
Request = Callable[[bytes], Awaitable[bytes]]


async def perform_login(credentials: Credentials, request: Request) -> float:
    """Log in; the lifetime of the session in seconds, 0: it has no limit. Raises LoginError, OSError, EOFError."""
    steps = log_in(credentials.mechanism, await credentials.tokens())
    try:
        frame = next(steps)
        while True:
            frame = steps.send(await request(frame))
    except StopIteration as done:
        lifetime_s: float = done.value
        return lifetime_s
    except CodecError as error:
        raise LoginError(f"the broker does not speak Kafka: {error}") from error
    except EOFError as error:
        raise ConnectionResetError(
            "closed the connection during the login: does it expect TLS at this port?"
        ) from error


class LoginProtocol(asyncio.Protocol):
    """A connection during its login: one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._response: asyncio.Future[bytes] | None = None
        self._lost: Exception | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, chunk: bytes) -> None:
        self._received += chunk
        if len(self._received) < LENGTH.size:
            return
        (length,) = LENGTH.unpack_from(self._received)
        if not 0 < length <= MAX_RESPONSE_BYTES:
            self._fail(CodecError(f"it sent a frame of {length} bytes"))
        elif len(self._received) >= LENGTH.size + length and self._response is not None:
            frame = bytes(self._received)
            self._received.clear()
            if not self._response.done():
                self._response.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._fail(error or EOFError())

    async def request(self, frame: bytes) -> bytes:
        """The response to a request. Raises OSError, EOFError, CodecError."""
        if self._lost is not None or self.transport is None:
            raise self._lost or EOFError()
        self._response = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return await self._response

    def hand_over(self, side: asyncio.Protocol) -> None:
        """Let another protocol have the connection. Raises LoginError if it has ended."""
        if self.transport is None or self.transport.is_closing():
            raise LoginError("the broker closes the connection after the login")
        self.transport.set_protocol(side)
        side.connection_made(self.transport)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _fail(self, error: Exception) -> None:
        self._lost = error
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
