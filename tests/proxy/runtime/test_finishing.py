"""Connections that end between two requests."""

from __future__ import annotations

import asyncio

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker, Request, named
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.finishing import finish, finish_connections
from kafka_sidecar.proxy.server.server import DRAIN, Server

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
FETCH = request(ApiKey.FETCH, 11, 7, bytes(40))


def only(server: Server) -> Connection:
    (connection,) = server.connections
    return connection


async def test_without_patience_a_request_that_was_read_gets_its_response_and_others_are_discarded() -> None:
    arrived, released = asyncio.Event(), asyncio.Event()

    async def late(broker: FakeBroker, asked: Request) -> bytes:
        arrived.set()
        await released.wait()
        return await named(broker, asked)

    async with FakeBroker() as broker, serving(broker) as server:
        broker.answers[ApiKey.HEARTBEAT] = late
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            await arrived.wait()
            finishing = asyncio.ensure_future(finish_connections(server.connections, DRAIN, patience_s=0))
            await until(lambda: only(server).session.finishing)
            received = only(server).bytes_from_client
            client.send(HEARTBEAT)
            await until(lambda: only(server).bytes_from_client > received)
            released.set()
            await finishing
            assert (await client.rest())[8:] == b"node 1"
        assert [asked.key for asked in broker.requests].count(ApiKey.HEARTBEAT) == 1
        await until(lambda: not server.connections)
        assert server.metrics.disconnects == {"drain": 1}


async def test_a_connection_is_not_finished_in_the_middle_of_a_request() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        client.send(FETCH[:30])
        await until(lambda: only(server).session.incomplete[0])
        assert not finish(only(server), DRAIN, is_patient=False)
        client.send(FETCH[30:])
        assert (await client.frame())[8:] == b"node 1"
        assert finish(only(server), DRAIN, is_patient=True)
        assert await client.rest() == b""


async def test_with_patience_a_connection_ends_only_at_a_moment_without_requests() -> None:
    released = asyncio.Event()

    async def late(broker: FakeBroker, asked: Request) -> bytes:
        await released.wait()
        return await named(broker, asked)

    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.HEARTBEAT] = late
        client.send(HEARTBEAT)
        await until(lambda: server.connections and only(server).session.in_flight)
        finishing = asyncio.ensure_future(finish_connections(server.connections, DRAIN, patience_s=60))
        client.send(HEARTBEAT)
        await until(lambda: only(server).session.in_flight == 2)
        assert only(server).session.finishing is None
        released.set()
        assert (await client.rest()).count(b"node 1") == 2
        await finishing


@pytest.mark.parametrize("patience_s", [0, 60])
async def test_a_client_that_still_reads_a_response_gets_all_of_it(patience_s: int) -> None:
    value = bytes(range(256)) * (16 << 12)  # 16 MB: more than sockets hold
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        connection = only(server)
        client.pause()
        assert connection.to_client is not None
        connection.to_client.write(value)
        finishing = asyncio.ensure_future(finish_connections(server.connections, DRAIN, patience_s))
        await asyncio.sleep(0.05)
        assert server.connections  # not closed, whether it is ended already or not
        client.resume()
        assert await client.rest() == value
        await finishing
        assert server.metrics.disconnects == {"drain": 1}
