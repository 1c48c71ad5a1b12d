"""Messages between the supervisor and one worker, over a socket pair that the worker inherits: it has no address.

The end of the channel is the end of the peer, however that died.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, cast

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.server.admin.page import Page
from kafka_sidecar.proxy.server.admin.tap.wanted import Wanted

LENGTH = Struct(">I")
Broker = tuple[int, str, int]  # node id, host, port


class Channel(asyncio.Protocol):
    """One end. Messages are dataclasses, below."""

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

    @property
    def waiting_bytes(self) -> int:
        """That were sent and not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

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


# To a worker


@dataclass(frozen=True, slots=True)
class Start:
    """The first message: what to serve."""

    config: Config  # with the worker's place
    path: Path | None  # of the file, for reloads
    flags: Mapping[str, object]
    import_path: tuple[str, ...]
    brokers: tuple[Broker, ...] = ()  # that the worker before it had listeners for
    is_replacement: bool = False


@dataclass(frozen=True, slots=True)
class Serve:
    """Listen: all workers are prepared, so that none gets all connections."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """As SIGHUP."""


@dataclass(frozen=True, slots=True)
class Drain:
    """As SIGTERM; ``hurry``: as a second one."""

    hurry: bool = False


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page of this worker. They are answered in the order of the requests."""

    target: str


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What this worker does now, with these parts. Answered as a page, in the same order."""

    wanted: frozenset[str]


@dataclass(frozen=True, slots=True)
class OpenTap:
    """Show what is wanted, in `TapLines` with this number."""

    number: int
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class CloseTap:
    """The tap of this number ends."""

    number: int


# From a worker


@dataclass(frozen=True, slots=True)
class Prepared:
    """The configuration is loaded, with all that it names."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Clients are accepted."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """The configuration is; the worker ends."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """The event loop runs."""


@dataclass(frozen=True, slots=True)
class Applied:
    """This configuration applies after a reload."""

    config: Config


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """For these there are listeners."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class PageResponse:
    page: Page


@dataclass(frozen=True, slots=True)
class TapLines:
    """Lines of an open tap, their number, and that of those that were skipped."""

    tap: int
    lines: bytes
    number: int
    skipped: int


ToWorker = Start | Serve | HangUp | Drain | PageRequest | SampleRequest | OpenTap | CloseTap
FromWorker = Prepared | Serving | Invalid | Alive | Applied | BrokersChanged | PageResponse | TapLines
