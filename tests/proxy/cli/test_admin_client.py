"""How commands find and ask the admin port of a running sidecar."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from harness.ports import free_ports
from support.admin import command, get_json
from support.commands import CliRunner
from support.rejecting import SECRET, guarded, rejected

from kafka_sidecar.proxy.cli import admin_client, pages
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
    assert admin_client._token(None) == {}
    assert admin_client._token(tmp_path / "token") == {"Authorization": "Bearer 0123456789abcdef"}
    monkeypatch.setenv(admin_client.TOKEN_VARIABLE, str(tmp_path / "missing"))
    printed = CliRunner().invoke(app, ["explain", "a-1"])
    assert (printed.exit_code, "TOKEN_FILE" in printed.output) == (2, True)


async def test_the_command_prints_all_that_is_known() -> None:
    topics = [{"name": "ord*", "policy": 'stub:"a, b"', "percent": 100}]
    async with guarded(topics=topics) as (server, port):
        found = await rejected(server, "good", f"bad {SECRET}")
        printed = await command(port, "explain", found)
        assert printed.exit_code == 0, printed.output
        lines = printed.output.splitlines()
        assert lines[0].startswith("orders-3: rejected at 20")
        assert lines[0].endswith(" by stub (bad)")
        assert "  message     orders takes no bad" in lines
        assert "              1: stub (bad): orders takes no bad" in lines
        assert any("client id app" in line and "correlation id 7" in line for line in lines)
        assert any("from topics: ord*, mode enforce" in line for line in lines)
        assert any(line.startswith("  what to do  Correct what the application sends") for line in lines)
        assert SECRET not in printed.output
        as_json = await command(port, "explain", found, "--json")
        assert json.loads(as_json.output) == await get_json(port, f"/rejections/{found}")


async def test_the_command_fails_in_one_line_where_the_id_is_unknown() -> None:
    async with guarded() as (_, port):
        printed = await command(port, "explain", "zzzzzz-1")
    assert printed.exit_code == 1
    assert printed.output.startswith("kafka-sidecar: rejection zzzzzz-1 is unknown: ")


def test_what_is_not_known_of_a_rejection_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "topic": "orders", "partition": 3, "outcome": "rejected", "timestamp": "2026-11-01T08:00:00Z",
        "policy": "limits", "reason": "damaged", "message": "The records have no end",
        "records": [], "rejected_records": 0,
        "client": {"client": "127.0.0.1:4711"}, "batch": None, "configuration": None, "remedy": "Update the client",
    }  # fmt: skip
    monkeypatch.setattr(pages, "ask", lambda admin, page: known)
    assert CliRunner().invoke(app, ["explain", "x3k9qd-1f"]).output.splitlines() == [
        "orders-3: rejected at 2026-11-01T08:00:00Z by limits (damaged)",
        "  message     The records have no end",
        "  client      client 127.0.0.1:4711",
        "  what to do  Update the client",
    ]


def test_levels_that_differ_between_workers_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"workers": {"0": {"level": "info", "loggers": {}}, "1": {"level": "debug", "loggers": {}}}}
    monkeypatch.setattr(pages, "ask", lambda admin, path, method="GET": answer)
    printed = CliRunner().invoke(app, ["log-level"])
    assert (printed.exit_code, json.loads(printed.output)) == (0, answer)


def test_what_differs_between_workers_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, object] = {"workers": {"0": {"topics": []}, "1": {"topics": []}}}
    monkeypatch.setattr(pages, "ask", lambda admin, path: answer)
    printed = CliRunner().invoke(app, ["topics"])
    assert (printed.exit_code, json.loads(printed.output)) == (0, answer)
