"""The sidecar logs in at a broker that is played by the test: before the client's first request, and again in time."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker, hang_up
from support.in_process import connected, port_of, serving, until
from support.secured_broker import PASSWORD, SASL, secured

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server.admin.readiness import readiness

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


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
        assert "Invalid username or password; correct brokers.sasl (username app" in readiness(server)["broker_login"]
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
