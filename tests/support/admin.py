"""The admin port of a sidecar in the event loop of one test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from typer.testing import Result

from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.server.admin.http import AdminServer
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from support.commands import CliRunner
from support.fake_broker import FakeBroker
from support.in_process import connected, serving

protocols: list[AdminServer] = []


@asynccontextmanager
async def admin_of(server: Server) -> AsyncIterator[int]:
    """The port of a sidecar's admin pages."""
    protocols.append(AdminServer(Admin(server)))
    listener = await asyncio.get_running_loop().create_server(protocols[-1].protocol, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def pages(*brokers: FakeBroker | str, **settings: Any) -> AsyncIterator[tuple[Server, int]]:
    async with serving(*brokers, **settings) as server, admin_of(server) as port:
        yield server, port


async def ask(port: int, raw: bytes) -> bytes:
    """All bytes of the response; the request must ask for the connection to be closed."""
    async with connected(port) as client:
        client.send(raw)
        return await client.rest()


async def get(
    port: int, target: str, method: str = "GET", head: str = "", body: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    lines = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}{head}\r\n{body}"
    raw = await ask(port, lines.encode())
    top, _, content = raw.partition(b"\r\n\r\n")
    status, *fields = top.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in fields), content


async def get_json(port: int, target: str) -> Any:
    """The value of a page that is there."""
    status, _, body = await get(port, target)
    assert status == 200, body
    return json.loads(body)


async def command(port: int, *words: str) -> Result:
    """A command that asks this admin port."""
    return await asyncio.to_thread(CliRunner().invoke, app, [*words, "--admin", f"127.0.0.1:{port}"])
