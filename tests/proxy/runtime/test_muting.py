"""A client that is over a rate limit is not read for some time; all else goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import ANSWERS, FakeBroker, Request, after
from support.fetches import fetch_request
from support.in_process import Client, connected, port_of, serving, until
from support.interception import fetch_response
from support.produce_requests import batch, produce_request, produce_response
from support.rate_limits import throttle_ms

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import describe_open
from kafka_sidecar.proxy.runtime.sweep import Sweep, finish, finish_connections
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.server.server import Server

V = 9
RECORDS = batch(*["x" * 100] * 10)
SIZE = len(RECORDS)
HEARTBEAT = request(ApiKey.HEARTBEAT, 4, 50, b"\0")


def sent(at: int, acks: int = -1, topic: str = "orders") -> bytes:
    return produce_request(V, {topic: {0: RECORDS}}, acks, at)


async def stores(broker: FakeBroker, asked: Request) -> bytes:
    return produce_response(V, {"orders": {0: 1}}, asked.correlation_id)


@asynccontextmanager
async def limited(per_second: float, **entry: Any) -> AsyncIterator[tuple[FakeBroker, Server, Client]]:
    """A sidecar that lets so many of these requests pass in a second, and one client."""
    limit = {"name": "shop", "topics": ["orders"], "produce_bytes": int(per_second * SIZE), "burst": "1ms", **entry}
    async with (
        FakeBroker() as broker, serving(broker, rate_limits=[limit]) as server, connected(port_of(server)) as client,
    ):  # fmt: skip
        broker.answers[ApiKey.PRODUCE] = stores
        yield broker, server, client


def produced(broker: FakeBroker) -> list[int]:
    return [one.correlation_id for one in broker.requests if one.key == ApiKey.PRODUCE]


def only(server: Server) -> Connection:
    (connection,) = server.connections
    return connection


async def test_what_the_client_sends_meanwhile_is_read_once_the_time_is_over() -> None:
    async with limited(3) as (broker, server, client):
        began = time.monotonic()
        await client.ask(sent(1))
        assert only(server).is_muted
        client.send(sent(2))
        await client.frame()
        assert time.monotonic() - began >= 0.3
        assert produced(broker) == [1, 2]


async def test_the_response_comes_at_once_and_says_for_how_long() -> None:
    async with limited(0.2) as (_, server, client):
        said = throttle_ms(ApiKey.PRODUCE, V, await client.ask(sent(1)))
        assert 4000 < said <= 5100
        assert only(server).client_is_paused


async def test_nothing_that_is_on_its_way_to_the_client_waits() -> None:
    async with limited(0.2) as (broker, server, client):
        response = fetch_response(12, {"orders": {0: {"records": RECORDS * 100}}})

        async def fetched(broker: FakeBroker, asked: Request) -> bytes:
            return response

        broker.answers[ApiKey.FETCH] = after(0.3, fetched)
        client.send(sent(1) + fetch_request(12, {"orders": {0: 0}}))
        await client.frame()
        fetched_frame = await client.frame()
        assert len(fetched_frame) == len(response)
        assert only(server).is_muted


async def test_other_connections_are_not_slowed() -> None:
    async with limited(0.2, per=["client_id"]) as (_, server, client), connected(port_of(server)) as other:
        await client.ask(sent(1))
        for _ in range(50):
            await asyncio.wait_for(other.ask(HEARTBEAT), 4)
        for at in range(5):
            await asyncio.wait_for(other.ask(sent(at, topic="free")), 4)


async def test_the_admin_port_says_by_which_limit_a_client_is_not_read() -> None:
    async with limited(0.2) as (_, server, client):
        await client.ask(sent(1))
        assert describe_open(only(server))["client_paused"] == ["rate limit shop"]


async def test_a_longer_wait_takes_the_place_of_a_shorter_one() -> None:
    async with limited(0.2) as (_, server, client):
        await client.ask(HEARTBEAT)
        connection = only(server)
        for seconds, limit in ((0.01, "one"), (0.2, "two"), (0.05, "two")):
            connection.muting.begin(seconds, limit)
        assert connection.client.reasons == {"rate limit two"}
        await until(lambda: not connection.client_is_paused)
        assert not connection.is_muted


async def test_a_muted_client_is_not_idle() -> None:
    async with limited(0.2) as (_, server, client):
        await client.ask(sent(1))
        connection = only(server)
        sweep = Sweep(server.connections, server.memory, Threads(1), 5.0, 5.0)
        assert sweep.overdue(connection, connection.began + 1) is None
        assert sweep.overdue(connection, connection.began + 9) is None
        connection.muting.stop()
        closing = sweep.overdue(connection, connection.began + 9)
        assert closing is not None
        assert closing.cause == "idle"


async def test_the_rest_of_a_request_is_not_missed_while_its_client_is_muted() -> None:
    async with limited(0.2) as (_, server, client):
        client.send(sent(1) + sent(2)[:100])  # half a request more
        await client.frame()
        connection = only(server)
        sweep = Sweep(server.connections, server.memory, Threads(1), 5.0, 5.0)
        for later in (1, 3, 6, 9):
            assert sweep.overdue(connection, connection.began + later) is None
        connection.muting.stop()
        closing = sweep.overdue(connection, connection.began + 15)
        assert closing is not None
        assert closing.cause == "frame_timeout"


@pytest.mark.parametrize("is_patient", [True, False])
async def test_a_drain_ends_a_muted_client_without_losing_a_response(is_patient: bool) -> None:
    async with limited(0.2) as (broker, server, client):
        broker.answers[ApiKey.PRODUCE] = after(0.2, stores)
        client.send(sent(1))
        await until(lambda: produced(broker))
        client.send(sent(2) * 20)  # a connection that is closed before this is read is reset
        await asyncio.sleep(0.05)
        closing = Closing("drain", "the sidecar stops")
        assert not finish(only(server), closing, is_patient)
        assert not only(server).is_muted
        await finish_connections(server.connections, closing, 1.0)
        assert throttle_ms(ApiKey.PRODUCE, V, await client.frame()) > 0
        assert await client.rest() == b""
        assert produced(broker) == [1]


async def test_records_of_a_client_that_does_not_wait_are_sent_although_it_has_gone() -> None:
    async with limited(10) as (broker, server, client):
        broker.answers[ApiKey.PRODUCE] = ANSWERS[ApiKey.PRODUCE]  # which has no response for these
        client.send(sent(1, acks=0))
        await until(lambda: produced(broker))
        client.send(sent(2, acks=0) + sent(3, acks=0))
        client.close()
        await until(lambda: not server.connections)
        assert produced(broker) == [1, 2, 3]


async def test_a_client_that_is_gone_leaves_no_timer() -> None:
    async with limited(0.2) as (_, server, client):
        await client.ask(sent(1))
        connection = only(server)
        connection.end(Closing("idle", "for the test"))
        assert not connection.is_muted
