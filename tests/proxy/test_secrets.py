"""No secret and no record is shown: with full debug log, crashes, all pages, metrics, dumps of the configuration."""

from __future__ import annotations

import json
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from harness.certificates import authority
from harness.sasl import CLIENT_ID, token, token_endpoint
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, connected, port_of, serving, until
from support.produce_requests import batch, produce_request
from support.secured_broker import PASSWORD, secured
from support.signed_tokens import Signer, key_set

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime import dialer, logins
from kafka_sidecar.proxy.security.sasl import tokens
from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user
from kafka_sidecar.proxy.server.admin.live.sample import PARTS, STATE
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.logs import JsonLines

OWN, WRONG, RECORD = "own-password-of-alice", "wrong-guess-of-mallory", "contents-of-a-record"
KEY_PASSWORD, STORE_PASSWORD, TOKEN = "password-of-the-key", "password-of-the-store", token("subject-of-the-token")
CA = authority()
SECRETS = (PASSWORD, OWN, WRONG, RECORD)
PAGES = (
    "/livez",
    "/readyz?verbose",
    "/metrics",
    "/rejections",
    "/log-level",
    "/topics",
    "/topics/orders",
    "/connections",
    "/configuration",
)
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
HANDSHAKE = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), 2)


@pytest.fixture(name="settings")
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(dialer, "REJECTED_PAUSE_S", 0.01)
    monkeypatch.setattr(logins, "REJECTED_PAUSE_S", 0.01)
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "users").write_text(format_user("alice", "SCRAM-SHA-256", create_verifier("SCRAM-SHA-256", OWN)))
    sasl = {"mechanism": "PLAIN", "username": "app", "password_file": tmp_path / "password"}
    return {
        "brokers": {"security_protocol": "SASL_PLAINTEXT", "sasl": sasl},
        "clients": {"sasl": {"mechanisms": ["PLAIN"], "users_file": tmp_path / "users"}},
        "topics": [{"name": "orders", "policy": "json"}],
    }


async def log_in(client: Client, password: str) -> None:
    await client.ask(HANDSHAKE)
    token = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0" + password.encode())
    await client.ask(oracle.request_frame(token, 3))


async def shown(server: Server, caplog: pytest.LogCaptureFixture) -> str:
    """All that a person or a program can see."""
    admin = Admin(server)
    bodies = [admin.own_page(page).body.decode() for page in PAGES]
    bodies.append((await admin.sample(frozenset({STATE, *PARTS}))).body.decode())
    bodies += [admin.own_page(f"/connections/{one.number}").body.decode() for one in server.connections]
    lines = [JsonLines().format(record) for record in caplog.records] + [repr(vars(one)) for one in caplog.records]
    dumps = [repr(server.config), server.config.model_dump_json(), json.dumps(server.config.model_dump(mode="json"))]
    return "\n".join((*bodies, *lines, *dumps, caplog.text))


async def test_a_run_with_every_line_and_forced_crashes_shows_no_secret_and_no_record(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    async with FakeBroker(1) as broker, serving(secured(broker, 0.1), **settings) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as guesser:
            await log_in(guesser, WRONG)
        async with connected(port_of(server)) as client:
            await log_in(client, OWN)
            await client.ask(produce_request(9, {"orders": {0: batch(RECORD)}}))
            page = await shown(server, caplog)
        (tmp_path / "password").write_text(WRONG)  # logins at the broker fail from now on
        async with connected(port_of(server)) as client:
            await log_in(client, OWN)
            client.send(HEARTBEAT)
            await client.rest()
        (tmp_path / "password").write_text(PASSWORD)
        monkeypatch.setattr(Session, "from_client", _crash)
        async with connected(port_of(server)) as client:
            await log_in(client, OWN)
            client.send(produce_request(9, {"orders": {0: batch(RECORD)}}))
            await client.rest()
        page += await shown(server, caplog)
    for expected in ("login failed", "session crashed: this is a bug", "records rejected", "User:alice"):
        assert expected in page
    assert [secret for secret in SECRETS if secret in page] == []


def _crash(*_: object) -> bytes:
    raise RuntimeError("forced by the test")


def pem_lines(*keys: Path) -> list[str]:
    """What would be shown of private keys."""
    return [line for key in keys for line in key.read_text().splitlines() if not line.startswith("---")]


async def test_passwords_of_keys_and_stores_are_not_shown_and_no_key_is(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    chain, key = CA.issue("sidecar").write(tmp_path, "sidecar", KEY_PASSWORD)
    own = CA.issue("own").write(tmp_path, "own", KEY_PASSWORD)
    for name, password in (("key-password", KEY_PASSWORD), ("store-password", STORE_PASSWORD)):
        (tmp_path / name).write_text(password)
    client_tls = {"certificate": chain, "key": key, "key_password_file": tmp_path / "key-password"}
    broker_tls = {
        "ca": CA.write_trust_store(tmp_path, STORE_PASSWORD), "ca_password_file": tmp_path / "store-password",
        "certificate": own[0], "key": own[1], "key_password": VariableText(KEY_PASSWORD),
    }  # fmt: skip
    settings = {"clients": {"tls": client_tls}, "brokers": {"security_protocol": "SSL", "tls": broker_tls}}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*CA.issue("broker").write(tmp_path, "broker"))
    async with FakeBroker(1, tls=context) as broker, serving(broker, **settings) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server), CA.client_context()) as client:
            await client.ask(produce_request(9, {"orders": {0: batch(RECORD)}}))
            page = await shown(server, caplog)
        assert server.tls.clients is not None
        key.write_text(CA.issue("sidecar").key_pem("another-password-of-a-key"))  # which the file does not have
        for _ in range(3):
            server.tls.clients.look()
        monkeypatch.setattr(Session, "from_client", _crash)
        async with connected(port_of(server), CA.client_context()) as client:
            client.send(produce_request(9, {"orders": {0: batch(RECORD)}}))
            await client.rest()
        page += await shown(server, caplog)
    for expected in ("certificates rejected", "key_password", "session crashed: this is a bug"):
        assert expected in page
    secrets = [KEY_PASSWORD, STORE_PASSWORD, RECORD, "another-password-of-a-key", *pem_lines(key, own[1])]
    assert [secret for secret in secrets if secret in page] == []


@pytest.mark.parametrize("source", ["file", "endpoint", "crash"])
async def test_no_token_and_no_clients_secret_is_shown(
    source: str, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(dialer, "REJECTED_PAUSE_S", 0.01)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "secret").write_text(WRONG)
    given: dict[str, Any] = {"token_file": tmp_path / "token"}
    with token_endpoint() as endpoint:
        if source == "endpoint":
            given = {"token_endpoint": endpoint.url, "client_id": CLIENT_ID, "client_secret_file": tmp_path / "secret"}
        sasl = {"mechanism": "OAUTHBEARER", **given}
        brokers = {"security_protocol": "SASL_PLAINTEXT", "sasl": sasl}
        if source == "crash":
            monkeypatch.setattr(tokens, "oauthbearer", _crash)
        async with FakeBroker(1) as broker, serving(secured(broker), brokers=brokers) as server:
            await until(lambda: "login failed" in caplog.text or "forced by the test" in caplog.text)
            async with connected(port_of(server)) as client:
                client.send(HEARTBEAT)
                await client.rest()
            await until(lambda: "connection ended" in caplog.text)
            page = await shown(server, caplog)
    expected = {"file": "Invalid username or password", "endpoint": "responds with 401", "crash": "forced by the test"}
    assert expected[source] in page
    assert [secret for secret in (TOKEN, WRONG) if secret in page] == []


def bearer_token(signed: str) -> bytes:
    """The client's response of OAUTHBEARER (RFC 7628)."""
    return f"n,,\x01auth=Bearer {signed}\x01\x01".encode()


async def test_tokens_of_clients_and_passwords_of_their_users_at_brokers_are_not_shown(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    known, stranger = Signer("k1"), Signer("k1")
    (tmp_path / "keys").write_text(key_set(known))
    (tmp_path / "mapped").write_text(PASSWORD)
    settings["clients"] = {
        "sasl": {"mechanisms": ["OAUTHBEARER"], "jwks_file": tmp_path / "keys", "expected_audience": ["kafka"]}
    }
    settings["brokers"]["logins"] = [
        {"principals": ["User:alice"], "mechanism": "PLAIN", "username": "app", "password_file": tmp_path / "mapped"}
    ]
    signed = [
        known.token(aud="kafka"), stranger.token(aud="kafka"), known.token(aud="another"), known.token(lifetime_s=-60),
    ]  # fmt: skip
    handshake = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER"), 2)
    page = ""
    async with FakeBroker(1) as broker, serving(secured(broker, 0.1), **settings) as server:
        await until(lambda: server.addresses.nodes)
        for one in (*signed, "a.malformed-token-of-mallory.b"):
            async with connected(port_of(server)) as client:
                await client.ask(handshake)
                login = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bearer_token(one))
                await client.ask(oracle.request_frame(login, 3))
                if one is signed[0]:
                    await client.ask(produce_request(9, {"orders": {0: batch(RECORD)}}))
                page += await shown(server, caplog)
        (tmp_path / "mapped").write_text(WRONG)
        monkeypatch.setattr(Session, "from_client", _crash)
        async with connected(port_of(server)) as client:
            await client.ask(handshake)
            login = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bearer_token(signed[0]))
            await client.ask(oracle.request_frame(login, 3))
            client.send(HEARTBEAT)
            await client.rest()
        page += await shown(server, caplog)
    for expected in ("login failed", "brokers.logins", "User:alice", "OAUTHBEARER"):
        assert expected in page
    parts = [part for one in signed for part in one.split(".")[1:]]  # claims and signatures
    secrets = (*parts, "malformed-token-of-mallory", PASSWORD, WRONG, RECORD)
    assert [secret for secret in secrets if secret in page] == []
