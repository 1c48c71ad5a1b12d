"""Connections to brokers: every candidate in turn, and all again while none is reached."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime.dialer import Address, BrokerUnreachableError, Dialer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess, cause_of
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
CLOSED = ("127.0.0.1", 1)


class Attempts:
    def __init__(self) -> None:
        self.own: set[Address] = set()
        self.made: list[tuple[Address, str | None]] = []  # with the cause of a failure

    def is_own(self, address: Address) -> bool:
        return address in self.own

    def record_attempt(self, address: Address, error: Exception | None) -> None:
        self.made.append((address, None if error is None else cause_of(error)))


class Dialling:
    """A dialer, and what it reports."""

    def __init__(self) -> None:
        self.attempts = Attempts()
        self.now = 0.0
        limiter = LogLimiter(10, lambda: self.now)
        self.dialer = Dialer(self.attempts, limiter, BrokerAccess(), 5.0)

    async def dial(self, *candidates: Address, wait_s: float = 0.0) -> None:
        await self.dialer.dial(lambda: list(candidates), asyncio.Protocol, wait_s)

    async def error(self, *candidates: Address) -> BrokerUnreachableError:
        with pytest.raises(BrokerUnreachableError) as error:
            await self.dial(*candidates)
        return error.value


async def test_the_next_candidate_is_tried_when_one_is_unreachable() -> None:
    dialling = Dialling()
    async with FakeBroker() as broker:
        await dialling.dial(CLOSED, (broker.host, broker.port))
        assert dialling.attempts.made == [(CLOSED, "broker_unreachable"), ((broker.host, broker.port), None)]


async def test_all_candidates_are_tried_again_until_one_is_reached() -> None:
    dialling, broker = Dialling(), await FakeBroker().start()
    await broker.stop()
    dial = asyncio.ensure_future(dialling.dial((broker.host, broker.port), wait_s=60))
    await until(lambda: len(dialling.attempts.made) == 2)
    async with broker:
        await dial
        assert dialling.attempts.made[-1] == ((broker.host, broker.port), None)


async def test_the_last_failure_is_reported_when_the_wait_is_over() -> None:
    error = await Dialling().error(CLOSED)
    assert (error.cause, str(error)) == ("broker_unreachable", "127.0.0.1:1: refused the connection")


async def test_a_broker_that_has_left_the_cluster_is_not_waited_for() -> None:
    with pytest.raises(BrokerUnreachableError, match="has left the cluster"):
        await Dialling().dial(wait_s=3600)


async def test_an_address_that_leads_back_to_the_sidecar_is_not_dialled() -> None:
    dialling = Dialling()
    dialling.attempts.own.add(CLOSED)
    error = await dialling.error(CLOSED)
    assert (error.cause, str(error)) == ("connects_to_itself", "127.0.0.1:1 leads back to this sidecar")
    assert dialling.attempts.made == []


async def test_one_line_in_ten_seconds_is_logged_for_an_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    dialling = Dialling()
    for dialling.now in (0.0, 1.0, 9.9, 10.0):
        await dialling.error(CLOSED)
    lines: list[Any] = [vars(record) for record in caplog.records if record.message == "broker unreachable"]
    assert [(line["address"], line["suppressed"]) for line in lines] == [("127.0.0.1:1", 0), ("127.0.0.1:1", 2)]


async def test_a_client_that_comes_while_no_broker_is_up_waits_for_one() -> None:
    broker = await FakeBroker().start()
    await broker.stop()
    async with serving(broker) as server, connected(port_of(server)) as client:
        client.send(HEARTBEAT)
        await until(lambda: server.metrics.connect_failures["broker_unreachable"] >= 2)
        async with broker:
            assert (await client.frame())[8:] == b"node 1"
        assert server.metrics.disconnects["broker_unreachable"] == 0


async def test_clients_of_a_broker_that_is_down_get_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async with serving("127.0.0.1:1", connections={"broker_wait": "0s"}) as server:
        for _ in range(20):
            async with connected(port_of(server)) as client:
                client.send(HEARTBEAT)
                assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects == {"broker_unreachable": 20})
    messages = [record.message for record in caplog.records]
    assert (messages.count("broker unreachable"), messages.count("connection ended")) == (1, 1)
