"""Where the admin port is."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from harness.certificates import authority
from support.in_process import config, connected

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server.admin import listener
from kafka_sidecar.proxy.server.admin.listener import serve_admin
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics


async def test_a_default_admin_port_in_use_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config("127.0.0.1:1")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setattr(listener, "DEFAULT_ADMIN", "{}:{}".format(*other.getsockname()))
        admin, address = await serve_admin(Admin(Server(settings, Metrics())), settings)
        async with connected(int(address.rpartition(":")[2])) as client:
            client.send(b"GET /livez HTTP/1.0\r\n\r\n")
            assert b"200" in await client.rest()
        admin.close()
    assert caplog.messages == ["default admin port in use"]


async def test_a_configured_admin_port_in_use_is_a_mistake() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = config("127.0.0.1:1", admin={"listen": "{}:{}".format(*other.getsockname())})
        with pytest.raises(ConfigError, match=r"admin.listen: .* cannot be bound: Address already in use; choose"):
            await serve_admin(Admin(Server(settings, Metrics())), settings)


async def test_a_token_file_that_cannot_be_used_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    settings = config("127.0.0.1:1", admin={"token_file": tmp_path / "token"})
    with pytest.raises(ConfigError, match=r"admin\.token_file: .* has no token: write at least 16"):
        await serve_admin(Admin(Server(settings, Metrics())), settings)


CA = authority()


def secured(folder: Path, **more: str) -> Config:
    chain, key = CA.issue("localhost").write(folder, "own")
    tls = {"certificate": str(chain), "key": str(key), **more}
    return config("127.0.0.1:1", admin={"listen": "127.0.0.1:0", "tls": tls})


@asynccontextmanager
async def opened(settings: Config) -> AsyncIterator[int]:
    """The port."""
    server = Server(settings, Metrics())
    admin, address = await serve_admin(Admin(server), settings, server.tls.admin)
    yield int(address.rpartition(":")[2])
    admin.close()


async def answer(port: int, context: ssl.SSLContext) -> tuple[bytes, dict[str, Any]]:
    """The first line of a response, and the certificate that was presented."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    line = await reader.readline()
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return line, certificate


async def test_with_a_certificate_the_admin_port_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    async with opened(secured(tmp_path)) as port:
        line, _ = await answer(port, CA.client_context())
        assert line.startswith(b"HTTP/1.1 200")
        async with connected(port) as plain:
            plain.send(b"GET /livez HTTP/1.0\r\n\r\n")
            assert b"HTTP" not in await plain.rest()


async def test_a_renewed_certificate_of_the_admin_port_is_presented_by_later_handshakes(tmp_path: Path) -> None:
    async with opened(secured(tmp_path)) as port:
        _, before = await answer(port, CA.client_context())
        CA.issue("localhost").write(tmp_path, "own")
        for _ in range(3):
            _, after = await answer(port, CA.client_context())
        assert after["serialNumber"] != before["serialNumber"]


async def test_the_admin_port_can_require_a_certificate(tmp_path: Path) -> None:
    required = {"client_certificates": "required", "ca": str(CA.write(tmp_path, "ca"))}
    async with opened(secured(tmp_path, **required)) as port:
        own = CA.issue("prometheus").write(tmp_path, "prometheus")
        line, _ = await answer(port, CA.client_context(own))
        assert line.startswith(b"HTTP/1.1 200")
        try:
            line, _ = await answer(port, CA.client_context())
        except (ssl.SSLError, ConnectionError):
            line = b""
        assert line == b""
