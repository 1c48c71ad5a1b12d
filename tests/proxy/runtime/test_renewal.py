"""A login on a client's connection is renewed in time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving, until
from support.secured_broker import PASSWORD, SASL, secured

from kafka_sidecar.codec.apis import ApiKey

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


@pytest.fixture(name="brokers")
def _brokers(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "password").write_text(PASSWORD)
    sasl = {"mechanism": "PLAIN", "username": "app", "password_file": tmp_path / "password"}
    return {"security_protocol": "SASL_PLAINTEXT", "sasl": sasl}


async def test_a_login_is_renewed_before_the_next_request_and_the_client_sees_nothing(brokers: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(secured(broker, 0.1), brokers=brokers) as server:
        await until(lambda: server.metrics.cluster_reached)
        async with connected(port_of(server)) as client:
            before = len(broker.requests)
            for _ in range(3):
                assert await client.ask(HEARTBEAT) == await client.ask(HEARTBEAT)
                await asyncio.sleep(0.12)
        keys = [one.key for one in broker.requests[before:] if one.key in (*SASL, ApiKey.HEARTBEAT)]
        again = [*SASL, ApiKey.HEARTBEAT, ApiKey.HEARTBEAT]
        assert keys == again * 3
        assert server.metrics.broker_logins["renewed"] == 2


async def test_a_password_that_is_no_longer_accepted_ends_the_connection_at_its_next_request(
    brokers: dict[str, Any], tmp_path: Path
) -> None:
    async with FakeBroker(1) as broker, serving(secured(broker, 0.1), brokers=brokers) as server:
        await until(lambda: server.metrics.cluster_reached)
        async with connected(port_of(server)) as client:
            await client.ask(HEARTBEAT)
            (tmp_path / "password").write_text("changed")
            await asyncio.sleep(0.12)
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["authentication_failed"])
        assert server.broker_logins is not None
        assert "Invalid username or password" in (server.broker_logins.failure or "")


async def test_a_client_that_closes_stops_the_timer(brokers: dict[str, Any]) -> None:
    async with FakeBroker(1) as broker, serving(secured(broker, 3600), brokers=brokers) as server:
        async with connected(port_of(server)) as client:
            await client.ask(HEARTBEAT)
            (side,) = (one.broker for one in server.connections)
            assert side is not None
            assert side._renewal is not None
            timer = side._renewal._timer
            assert not timer.cancelled()
        await until(timer.cancelled)
