"""How commands find and ask the admin port of a running sidecar."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from harness.ports import free_ports
from support.admin import command
from typer.testing import CliRunner

from kafka_sidecar.proxy.cli import admin_client
from kafka_sidecar.proxy.cli.main import app


@pytest.mark.parametrize(
    ("given", "variable", "url"),
    [
        (None, None, "http://127.0.0.1:9190"),
        (None, "0.0.0.0:9191", "http://127.0.0.1:9191"),
        (None, "[::]:9191", "http://[::1]:9191"),
        ("sidecar:9190", "0.0.0.0:9191", "http://sidecar:9190"),
        ("https://admin.example.com/kafka/", None, "https://admin.example.com/kafka"),
    ],
)
def test_a_flag_wins_over_the_variable_and_both_over_the_default(
    given: str | None, variable: str | None, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(admin_client.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(admin_client.VARIABLE, variable)
    assert admin_client._base(given) == url


def test_a_port_where_nothing_listens_is_one_line_with_the_remedy() -> None:
    printed = CliRunner().invoke(app, ["explain", "a-1", "--admin", f"127.0.0.1:{free_ports(1)[0]}"])
    assert printed.exit_code == 1
    assert "no sidecar answers there" in printed.output
    assert "--admin" in printed.output


def test_an_address_that_is_none_is_a_wrong_flag() -> None:
    printed = CliRunner().invoke(app, ["explain", "a-1", "--admin", "nonsense"])
    assert (printed.exit_code, "write http://host:port" in printed.output) == (2, True)


@pytest.mark.parametrize(("status", "exit_code"), [("200 OK", 1), ("404 Not Found", 1)])
async def test_another_server_than_a_sidecar_is_recognised(status: str, exit_code: int) -> None:
    import asyncio

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n<html>".encode())
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0, family=socket.AF_INET) as server:
        printed = await command(server.sockets[0].getsockname()[1], "explain", "a-1")
    assert (printed.exit_code, "is it the admin port of a kafka-sidecar?" in printed.output) == (exit_code, True)


def test_the_token_is_in_the_file_that_a_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    monkeypatch.delenv(admin_client.TOKEN_VARIABLE, raising=False)
    assert admin_client._token() == {}
    monkeypatch.setenv(admin_client.TOKEN_VARIABLE, str(tmp_path / "token"))
    assert admin_client._token() == {"Authorization": "Bearer 0123456789abcdef"}
    monkeypatch.setenv(admin_client.TOKEN_VARIABLE, str(tmp_path / "missing"))
    printed = CliRunner().invoke(app, ["explain", "a-1"])
    assert (printed.exit_code, "TOKEN_FILE" in printed.output) == (2, True)
