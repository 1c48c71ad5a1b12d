"""The sidecar logs in at a broker that is played by the test: before the client's first request, and again in time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker, hang_up
from support.in_process import config, connected, port_of, serving, until
from support.secured_broker import PASSWORD, SASL, secured

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.security.sasl import broker_logins
from kafka_sidecar.proxy.security.sasl.broker_logins import (
    BrokerLoginProtocol,
    BrokerLoginsByPrincipal,
    open_broker_logins,
    open_logins_by_principal,
    perform_login,
)
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Tokens, plain
from kafka_sidecar.proxy.server.admin.readiness import readiness, verbose_readiness

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_a_login_has_a_debug_line_and_none_is_made_at_other_levels(
    level: int, brokers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(broker_logins.log, "level", level)
    monkeypatch.setattr(broker_logins.log, "debug", lambda message, **_: made.append(message))
    broker_logins.log.manager._clear_cache()  # type: ignore[attr-defined]
    async with FakeBroker(1) as broker, serving(secured(broker), brokers=brokers) as server:
        await until(lambda: server.addresses.nodes)
    assert set(made) == ({"logged in at a broker"} if level == logging.DEBUG else set())


async def test_a_plaintext_clients_first_request_comes_after_the_login(brokers: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(secured(broker), brokers=brokers) as server:
        await until(lambda: server.addresses.nodes)
        before = len(broker.requests)
        async with connected(port_of(server)) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
        keys = [one.key for one in broker.requests[before:]]
        assert keys == [*SASL, ApiKey.HEARTBEAT]
        assert readiness(server)["broker_login"] == "ok"


async def test_the_sidecars_own_metadata_requests_log_in(brokers: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(secured(broker), brokers=brokers) as server:
        await until(lambda: server.addresses.nodes)
        assert server.last_metadata == "received"
        assert server.metrics.broker_logins["success"] >= 1


async def test_a_wrong_password_closes_the_connection_and_is_logged_once_with_the_remedy(
    brokers: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "password").write_text("wrong-one")
    async with FakeBroker(1) as broker, serving(secured(broker), brokers=brokers) as server:
        for _ in range(3):
            async with connected(port_of(server)) as client:
                client.send(HEARTBEAT)
                assert await client.rest() == b""
        assert server.metrics.disconnects["authentication_failed"] == 3
        assert readiness(server)["ready"] is False
        shown = verbose_readiness(server)["broker_login"]
        assert "Invalid username or password; correct brokers.sasl (username app" in shown
    lines = [record for record in caplog.records if record.message == "login failed"]
    assert len(lines) == 1
    assert lines[0].levelno == logging.ERROR
    assert vars(lines[0])["detail"].startswith("the broker rejects the login: Invalid username or password; correct ")
    assert "wrong-one" not in caplog.text


async def test_a_password_that_is_corrected_in_its_file_works_without_a_restart(
    brokers: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("wrong-one")
    async with FakeBroker(1) as broker, serving(secured(broker), brokers=brokers) as server:
        await until(lambda: server.metrics.broker_logins["failure"])
        (tmp_path / "password").write_text(PASSWORD)
        async with connected(port_of(server)) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"


async def test_a_broker_that_hangs_up_during_the_login_is_tried_again(brokers: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker:
        secured(broker)
        accepts, broker.answers[ApiKey.SASL_AUTHENTICATE] = broker.answers[ApiKey.SASL_AUTHENTICATE], hang_up()
        async with serving(broker, brokers=brokers) as server, connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            await until(lambda: server.metrics.connect_failures["broker_unreachable"])
            broker.answers[ApiKey.SASL_AUTHENTICATE] = accepts
            assert (await client.frame())[8:] == b"node 1"


async def test_a_secret_that_is_missing_at_the_start_is_an_error(brokers: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "password").unlink()
    with pytest.raises(ConfigError, match=r"brokers\.sasl\.password_file: .* cannot be read: No such file"):
        async with serving("127.0.0.1:1", brokers=brokers):
            pass


def loaded(folder: Path, *entries: dict[str, Any], **others: Any) -> Config:
    (folder / "password").write_text("secret-of-gateway")
    own = {"mechanism": "PLAIN", "username": "gateway", "password_file": str(folder / "password")}
    brokers = {"security_protocol": "SASL_PLAINTEXT", "sasl": own, "logins": list(entries)}
    clients = {"sasl": {"mechanisms": ["PLAIN"], "users_file": str(folder / "users")}}
    return config("127.0.0.1:1", **{"brokers": brokers, "clients": clients, **others})


def entry(folder: Path, username: str, *principals: str) -> dict[str, Any]:
    (folder / username).write_text(f"secret-of-{username}")
    return {
        "principals": list(principals), "mechanism": "SCRAM-SHA-256", "username": username,
        "password_file": str(folder / username),
    }  # fmt: skip


def opened(settings: Config) -> BrokerLoginsByPrincipal:
    return open_logins_by_principal(settings, open_broker_logins(settings, Counter()), Counter())


def test_the_first_entry_for_a_principal_applies_and_others_are_the_sidecars_own_user(tmp_path: Path) -> None:
    entries = (
        entry(tmp_path, "orders", "User:orders-*", "User:CN=a"),
        entry(tmp_path, "all", "User:orders-1", "User:b?"),
    )
    logins = opened(loaded(tmp_path, *entries))
    asked = ("User:orders-1", "User:CN=a", "User:b2", "User:b22", "User:other", None)
    found = [logins.of(principal) for principal in asked]
    remedies = [one.credentials.remedy if one is not None else "" for one in found]
    names = [remedy.partition("username ")[2].partition(",")[0] for remedy in remedies]
    assert names == ["orders", "orders", "all", "gateway", "gateway", "gateway"]
    assert remedies[0].startswith("correct brokers.logins (")
    assert "secret" not in str(remedies)


def test_a_password_that_cannot_be_read_is_a_mistake_of_the_section(tmp_path: Path) -> None:
    settings = loaded(tmp_path, entry(tmp_path, "orders", "User:a"))
    (tmp_path / "orders").unlink()
    with pytest.raises(ConfigError, match=r"brokers\.logins\.password_file: .*orders"):
        opened(settings)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"clients": {}}, "brokers.logins is set, but clients have no principals: set clients.sasl or"),
        ({"brokers": {"logins": [{"principals": ["User:*"], "mechanism": "PLAIN", "username": "a",
                                  "password_file": "p"}]}},
         "logins is set, but not used: set security_protocol to SASL_PLAINTEXT or SASL_SSL"),
    ],
)  # fmt: skip
def test_logins_that_could_never_be_used_are_rejected(tmp_path: Path, others: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        loaded(tmp_path, entry(tmp_path, "orders", "User:a"), **others)


class User:
    mechanism, remedy = "PLAIN", ""

    async def tokens(self) -> Tokens:
        return plain("app", PASSWORD)


async def login_protocol(broker: FakeBroker) -> BrokerLoginProtocol:
    _, protocol = await asyncio.get_running_loop().create_connection(BrokerLoginProtocol, broker.host, broker.port)
    return protocol


async def test_a_login_returns_the_lifetime_of_the_session() -> None:
    async with FakeBroker(1) as broker:
        secured(broker, lifetime_s=7)
        login = await login_protocol(broker)
        assert await perform_login(User(), login.request) == 7
        login.abort()


async def test_a_connection_that_is_closed_during_the_login_is_not_a_rejection() -> None:
    async with FakeBroker(1) as broker:
        secured(broker).answers[ApiKey.SASL_AUTHENTICATE] = hang_up(b"\0\0")
        with pytest.raises(ConnectionResetError, match="does it expect TLS at this port"):
            await perform_login(User(), (await login_protocol(broker)).request)


async def test_an_answer_that_is_not_kafka_is_an_error() -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.SASL_HANDSHAKE] = hang_up(b"HTTP/1.1 400 Bad Request")
        with pytest.raises(LoginError, match="does not speak Kafka"):
            await perform_login(User(), (await login_protocol(broker)).request)


async def test_a_response_that_comes_byte_by_byte_is_one_frame() -> None:
    protocol = BrokerLoginProtocol()
    protocol.connection_made(_Transport())
    asked = asyncio.ensure_future(protocol.request(b"asked"))
    await asyncio.sleep(0)
    frame = oracle.framed(b"response")
    for at in range(len(frame)):
        protocol.data_received(frame[at : at + 1])
    assert await asked == frame
    protocol.data_received(b"\xff\xff\xff\xff")
    with pytest.raises(CodecError):
        await protocol.request(b"again")


async def test_a_connection_that_has_ended_is_not_handed_over() -> None:
    protocol = BrokerLoginProtocol()
    protocol.connection_made(_Transport())
    protocol.connection_lost(None)
    with pytest.raises(LoginError, match="after the login"):
        protocol.hand_over(asyncio.Protocol())


class _Transport(asyncio.Transport):
    def write(self, data: object) -> None:
        return
