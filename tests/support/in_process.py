"""A sidecar, its clients and fake brokers in the event loop of one test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from harness.ports import free_ports

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics
from support.fake_broker import FakeBroker

NODE_PORTS = 8
LIMIT_S = 10.0
POLL_S = 0.002


class Client:
    """One connection of a client that speaks in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None = None) -> Client:
        name = "localhost" if tls is not None else None
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20, ssl=tls, server_hostname=name))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def send_eof(self) -> None:
        """Send no more, but read on."""
        self._writer.write_eof()

    async def flush(self) -> None:
        await self._writer.drain()

    async def frame(self) -> bytes:
        """The next response; EOFError when there is none."""
        async with asyncio.timeout(LIMIT_S):
            length = await self._reader.readexactly(4)
            return length + await self._reader.readexactly(int.from_bytes(length, "big"))

    async def ask(self, request: bytes) -> bytes:
        self.send(request)
        return await self.frame()

    async def rest(self) -> bytes:
        """All that comes until the connection ends."""
        async with asyncio.timeout(LIMIT_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def some(self) -> bytes:
        """What has come, at least one byte."""
        async with asyncio.timeout(LIMIT_S):
            return await self._reader.read(1 << 16)

    def pause(self) -> None:
        """Read nothing more from the socket."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume(self) -> None:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def connected(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    client = await Client.connect(port, tls)
    try:
        yield client
    finally:
        client.close()


def config(*brokers: FakeBroker | str, listen: int = 0, **settings: Any) -> Config:
    """Settings for these brokers; ``listen`` and the ports of nodes are free ones."""
    port = listen or free_ports(1 + NODE_PORTS)[0]
    servers = [broker if isinstance(broker, str) else broker.address for broker in brokers]
    nodes = {"ports": NODE_PORTS} | settings.pop("nodes", {})
    values = {"bootstrap_servers": servers, "listen": f"127.0.0.1:{port}", "nodes": nodes, **settings}
    return Config.model_validate(values)


def port_of(server: Server, node_id: int | None = None) -> int:
    """Where clients connect: to the bootstrap listener, or to the one of a node."""
    first = int(server.config.listen.rpartition(":")[2])
    return first if node_id is None else server.config.first_node_port + node_id


@asynccontextmanager
async def serving(*brokers: FakeBroker | str, **settings: Any) -> AsyncIterator[Server]:
    """A sidecar that is drained at once when the block ends."""
    server = Server(config(*brokers, **settings), Metrics())
    await server.start()
    try:
        yield server
    finally:
        hurry = asyncio.Event()
        hurry.set()
        await server.drain(hurry)


async def until_refused(port: int) -> None:
    """Wait until a port is closed; a loop closes its listeners a little after `close`."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                client = await Client.connect(port)
            except ConnectionRefusedError:
                return
            client.close()
            await asyncio.sleep(POLL_S)


async def until(is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait for something that happens in the same loop; TimeoutError when it does not."""
    for _ in range(int(limit_s / POLL_S)):
        if is_so():
            return
        await asyncio.sleep(POLL_S)
    raise TimeoutError
