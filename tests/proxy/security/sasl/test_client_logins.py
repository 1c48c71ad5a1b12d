"""Clients log in to a running sidecar; its file of users is read again when it changes."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, connected, port_of, serving, until
from support.secured_broker import ILLEGAL_STATE, secured
from support.signed_tokens import Signer, key_set

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.security.sasl.jwt_tokens import EndpointKeys
from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user
from kafka_sidecar.proxy.server.server import Server

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


async def test_a_client_that_comes_before_any_broker_has_answered_waits_for_one(clients: dict[str, Any]) -> None:
    broker = await FakeBroker(1).start()
    await broker.stop()
    async with (
        serving(broker, clients=clients, connections={"broker_wait": "10s"}) as server,
        connected(port_of(server)) as client,
    ):
        answer, _ = await asyncio.gather(client.ask(VERSIONS), start_later(broker))
        try:
            _, offered = oracle.read_response(ApiKey.API_VERSIONS, 3, answer)
            assert offered.api_keys
            assert await logged_in(client, b"hush") == 0
        finally:
            await broker.stop()


async def start_later(broker: FakeBroker) -> None:
    await asyncio.sleep(0.2)
    await broker.start()


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


def reloads(server: Server) -> Mapping[Any, Any]:
    (family,) = [
        one
        for families in server.metrics.features
        for one in families()
        if one.name == "client_logins_last_reload_successful"
    ]
    return family.samples


async def test_users_that_are_rejected_are_in_the_metrics_before_the_next_login(
    clients: dict[str, Any], tmp_path: Path
) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=clients) as server:
        assert reloads(server) == {("users",): 1}
        (tmp_path / "users").write_text("nonsense")
        assert reloads(server) == {("users",): 0}
        (tmp_path / "users").write_text(line("changed") + "# longer\n")
        assert reloads(server) == {("users",): 1}


async def test_keys_of_tokens_that_are_rejected_are_in_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(key_set(SIGNER))
    sasl = {"mechanisms": ["OAUTHBEARER"], "jwks_file": tmp_path / "keys"}
    async with FakeBroker(1) as broker, serving(broker, clients={"sasl": sasl}) as server:
        assert reloads(server) == {("token_keys",): 1}
        (tmp_path / "keys").write_text("{}")
        assert reloads(server) == {("token_keys",): 0}


async def test_an_endpoint_of_keys_that_fails_is_in_the_metrics() -> None:
    def unusable(url: str) -> bytes:
        return b"{}"

    keys = EndpointKeys("http://127.0.0.1:1/keys", 60, unusable)
    await keys.refresh()
    assert not keys.are_current


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


SIGNER = Signer("k1")
TOKEN_HANDSHAKE = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER"), 2)


@pytest.fixture(name="by_token")
def _by_token(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "keys").write_text(key_set(SIGNER))
    return {"sasl": {"mechanisms": ["OAUTHBEARER"], "jwks_file": tmp_path / "keys", "expected_audience": "kafka"}}


async def log_in_with(client: Client, token: str) -> Any:
    """The response to a token."""
    await client.ask(TOKEN_HANDSHAKE)
    response = b"n,,\1auth=Bearer " + token.encode() + b"\1\1"
    message = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=response)
    return oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, await client.ask(oracle.request_frame(message, 3)))[1]


async def test_a_client_logs_in_with_a_token_and_again_before_it_expires(by_token: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=by_token) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            first = await log_in_with(client, SIGNER.token(lifetime_s=1, aud="kafka"))
            assert first.error_code == 0
            assert 0 < first.session_lifetime.total_seconds() <= 1
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
            again = await log_in_with(client, SIGNER.token(lifetime_s=60, aud="kafka"))
            assert again.error_code == 0
            await asyncio.sleep(1.2)
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
        assert server.metrics.client_logins == {"success": 1, "renewed": 1}


async def test_a_client_whose_token_expires_is_disconnected(by_token: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=by_token) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            await log_in_with(client, SIGNER.token(lifetime_s=0.3, aud="kafka"))
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["not_authenticated"] == 1)


async def test_who_logs_in_again_stays_who_it_is(by_token: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(broker, clients=by_token) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            await log_in_with(client, SIGNER.token("alice", aud="kafka"))
            again = await log_in_with(client, SIGNER.token("bob", aud="kafka"))
            assert again.error_code == 58
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["client_authentication_failed"] == 1)


async def test_a_token_for_another_audience_gets_the_errors_of_rfc_7628_and_of_kafka(
    by_token: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    token = SIGNER.token(aud="others")
    async with (
        FakeBroker(1) as broker,
        serving(broker, clients=by_token) as server,
        connected(port_of(server)) as client,
    ):
        await until(lambda: server.addresses.nodes)
        response = await log_in_with(client, token)
        assert (response.error_code, response.auth_bytes) == (0, b'{"status": "invalid_token"}')
        message = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\1")
        _, last = oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, await client.ask(oracle.request_frame(message, 4)))
        assert last.error_code == 58
        assert "InvalidAudience" in last.error_message
        await until(lambda: server.metrics.disconnects["client_authentication_failed"] == 1)
    assert token not in caplog.text


async def test_the_keys_of_an_endpoint_are_asked_for_when_a_token_needs_them(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(key_set(SIGNER))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{endpoint.server_port}/keys"
        sasl = {"mechanisms": ["OAUTHBEARER"], "sasl.oauthbearer.jwks.endpoint.url": url}
        async with FakeBroker(1) as broker, serving(broker, clients={"sasl": sasl}) as server:
            await until(lambda: server.addresses.nodes)
            async with connected(port_of(server)) as client:
                assert (await log_in_with(client, SIGNER.token())).error_code == 0
        endpoint.shutdown()


async def test_keys_that_cannot_be_used_are_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("{}")
    sasl = {"mechanisms": "OAUTHBEARER", "jwks_file": tmp_path / "keys"}
    with pytest.raises(ConfigError, match=r"clients\.sasl\.jwks_file: .*is not a JWK set"):
        async with serving("127.0.0.1:1", clients={"sasl": sasl}):
            pass


async def test_a_new_key_is_asked_for_when_a_client_logs_in_again_with_it(tmp_path: Path) -> None:
    new = Signer("k2")
    (tmp_path / "keys").write_text(key_set(SIGNER))
    sasl = {"mechanisms": ["OAUTHBEARER"], "jwks_endpoint": "http://127.0.0.1:1/keys"}
    async with FakeBroker(1) as broker, serving(broker, clients={"sasl": sasl}) as server:
        assert server._client_logins is not None
        keys: Any = server._client_logins._tokens._keys  # type: ignore[union-attr]
        keys._fetch = lambda url: (tmp_path / "keys").read_bytes()
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            assert (await log_in_with(client, SIGNER.token())).error_code == 0
            (tmp_path / "keys").write_text(key_set(SIGNER, new))
            keys._answered_at -= 60
            assert (await log_in_with(client, new.token())).error_code == 0
        assert server.metrics.client_logins == {"success": 1, "renewed": 1}


def have_asked(keys: EndpointKeys, requests: int) -> bool:
    return keys.requests == requests


async def test_a_client_logs_in_when_the_keys_are_old_and_they_are_asked_for_again(tmp_path: Path) -> None:
    sasl = {"mechanisms": ["OAUTHBEARER"], "jwks_endpoint": "http://127.0.0.1:1/keys"}
    async with FakeBroker(1) as broker, serving(broker, clients={"sasl": sasl}) as server:
        assert server._client_logins is not None
        keys: Any = server._client_logins._tokens._keys  # type: ignore[union-attr]
        keys._fetch = lambda url: key_set(SIGNER).encode()
        await until(lambda: server.addresses.nodes)
        for requests in (1, 2):
            async with connected(port_of(server)) as client:
                assert (await log_in_with(client, SIGNER.token())).error_code == 0
            await until(partial(have_asked, keys, requests))
            keys._asked_at -= 3600
        assert server.metrics.client_logins == {"success": 2}


async def test_a_client_can_log_in_while_the_sidecar_drains(
    clients: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    connections = {"drain_timeout": "20s"}
    async with FakeBroker(1) as broker, serving(broker, clients=clients, connections=connections) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            await client.ask(VERSIONS)
            hurry = asyncio.Event()
            draining = asyncio.ensure_future(server.drain(hurry))
            await until(lambda: not server.listening)
            await asyncio.sleep(0.05)
            assert await logged_in(client, b"hush") == 0
            hurry.set()
            await draining
    assert "background task crashed" not in caplog.text


async def test_a_client_that_logs_in_itself_is_answered_as_at_a_plaintext_listener(
    brokers: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    handshake = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), 5)
    token = oracle.request_frame(oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0mine\0secret"), 6)
    async with (
        FakeBroker(1) as broker,
        serving(secured(broker), brokers=brokers) as server,
        connected(port_of(server)) as client,
    ):
        _, offered = oracle.read_response(ApiKey.SASL_HANDSHAKE, 1, await client.ask(handshake))
        _, rejected = oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, await client.ask(token))
    assert (offered.error_code, rejected.error_code) == (ILLEGAL_STATE, ILLEGAL_STATE)
    assert "set their security.protocol to PLAINTEXT" in rejected.error_message
    assert [record.message for record in caplog.records].count("client logs in") == 1
