"""Clients log in to a running sidecar; its file of users is read again when it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.sasl.users import create_verifier, format_user

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
HANDSHAKE = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), 2)
VERSIONS = oracle.request_frame(oracle.request(ApiKey.API_VERSIONS, 3, client_software_name="a"), 1)


def line(password: str) -> str:
    return format_user("alice", "SCRAM-SHA-256", create_verifier("SCRAM-SHA-256", password)) + "\n"


@pytest.fixture(name="clients")
def _clients(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "users").write_text(line("hush"))
    return {"sasl": {"mechanisms": ["PLAIN"], "users_file": tmp_path / "users"}}


async def logged_in(client: Client, password: bytes) -> int:
    """The error code of a login."""
    await client.ask(HANDSHAKE)
    message = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0" + password)
    _, answer = oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, await client.ask(oracle.request_frame(message, 3)))
    return int(answer.error_code)


async def test_a_client_is_forwarded_once_it_has_logged_in(clients: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=clients) as server:
        await until(lambda: server.addresses.nodes)
        connected_before = broker.connected
        async with connected(port_of(server)) as client:
            _, offered = oracle.read_response(ApiKey.API_VERSIONS, 3, await client.ask(VERSIONS))
            assert {one.api_key for one in offered.api_keys} >= {ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE}
            assert await logged_in(client, b"hush") == 0
            assert broker.connected == connected_before
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
            (connection,) = server.connections
            assert connection.session.principal == "User:alice"
        assert server.metrics.client_logins == {"success": 1}
        assert ApiKey.SASL_AUTHENTICATE not in [one.key for one in broker.requests]


async def test_a_wrong_password_ends_the_connection_after_kafkas_error(clients: dict[str, Any]) -> None:
    async with (
        FakeBroker(1) as broker,
        serving(broker, clients=clients) as server,
        connected(port_of(server)) as client,
    ):
        await until(lambda: server.addresses.nodes)
        assert await logged_in(client, b"wrong") == 58
        assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["client_authentication_failed"] == 1)
        assert server.metrics.client_logins == {"failure": 1}


async def test_a_client_without_a_login_never_reaches_a_broker(clients: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=clients) as server:
        await until(lambda: server.addresses.nodes)
        before = broker.connected
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        assert broker.connected == before


async def test_a_login_has_a_time_limit(clients: dict[str, Any]) -> None:
    clients["sasl"]["timeout"] = "50ms"
    async with (
        FakeBroker(1) as broker,
        serving(broker, clients=clients) as server,
        connected(port_of(server)) as client,
    ):
        client.send(HANDSHAKE[:10])
        assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["not_authenticated"] == 1)


async def test_users_that_are_replaced_in_the_file_apply_to_the_next_login(
    clients: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=clients) as server:
        await until(lambda: server.addresses.nodes)
        (tmp_path / "users").write_text(line("changed") + "# longer\n")
        async with connected(port_of(server)) as client:
            assert await logged_in(client, b"changed") == 0
        (tmp_path / "users").write_text("nonsense")
        async with connected(port_of(server)) as client:
            assert await logged_in(client, b"changed") == 0
    assert "users rejected, the previous ones stay applied" in caplog.messages


async def test_a_login_after_the_login_gets_kafkas_error(clients: dict[str, Any]) -> None:
    async with (
        FakeBroker(1) as broker,
        serving(broker, clients=clients) as server,
        connected(port_of(server)) as client,
    ):
        await until(lambda: server.addresses.nodes)
        await logged_in(client, b"hush")
        _, again = oracle.read_response(ApiKey.SASL_HANDSHAKE, 1, await client.ask(HANDSHAKE))
        assert again.error_code == 34


async def test_a_file_of_users_that_cannot_be_used_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("alice=hush")
    sasl = {"mechanisms": "SCRAM-SHA-256, PLAIN", "users_file": tmp_path / "users"}
    with pytest.raises(ConfigError, match=r"clients\.sasl\.users_file: .*line 1, is no user with its keys"):
        async with serving("127.0.0.1:1", clients={"sasl": sasl}):
            pass
