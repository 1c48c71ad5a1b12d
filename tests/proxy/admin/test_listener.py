"""Where the admin port is."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from support.in_process import config, connected

from kafka_sidecar.proxy.admin import listener
from kafka_sidecar.proxy.admin.listener import serve_admin
from kafka_sidecar.proxy.admin.pages import Admin
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server import Server
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
