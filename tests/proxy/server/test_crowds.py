"""Many connections of one sidecar that end together, over sockets: what is counted, logged and accepted meanwhile."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import LIMIT_S, config, connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server import server as server_module
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

COUNT = 12
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 1)
AT_ONCE = pack("ii", 1, 0)  # SO_LINGER: a close resets the connection


@pytest.fixture(autouse=True)
def one_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ENDS_PER_TURN", 1)


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(HEARTBEAT)
    return sock


@asynccontextmanager
async def crowd(server: Server) -> AsyncIterator[list[socket.socket]]:
    """Clients of which each has a broker."""
    socks = [connect(port_of(server)) for _ in range(COUNT)]
    try:
        await until(lambda: len(server.connections) == COUNT and all(one.broker for one in server.connections))
        yield socks
    finally:
        for sock in socks:
            sock.close()


def leave(socks: list[socket.socket], by_reset: bool) -> None:
    for sock in socks:
        if by_reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        sock.close()


@pytest.mark.parametrize("by_reset", [True, False])
@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
async def test_clients_that_come_back_at_once_are_not_refused_for_those_that_wait_to_be_ended(
    limit: str, by_reset: bool
) -> None:
    room = COUNT + 2  # the last one that ends has two turns in which its broker's side ends
    async with FakeBroker() as broker, serving(broker, connections={limit: room}) as server:
        async with crowd(server) as socks:
            leave(socks, by_reset)
            again = [connect(port_of(server)) for _ in range(COUNT)]
            await until(lambda: server.metrics.disconnects.total() == COUNT)
        await until(lambda: len(server.connections) == COUNT)
        assert server.metrics.disconnects == {"client_closed": COUNT}
        leave(again, by_reset)


async def test_connections_that_wait_to_be_ended_have_their_places_in_the_limit() -> None:
    """Otherwise an attacker that comes and goes would have as many more open files as it likes."""
    async with FakeBroker() as broker, serving(broker) as server, crowd(server) as socks:
        leave(socks, by_reset=True)
        later = [connect(port_of(server)) for _ in range(COUNT)]
        seen: list[int] = []
        async with asyncio.timeout(LIMIT_S):
            while server.metrics.disconnects.total() < COUNT:
                seen.append(len(server.connections))
                await asyncio.sleep(0)
        assert max(seen) <= COUNT + 2
        leave(later, by_reset=True)


async def test_a_sidecar_that_stops_ends_those_that_wait_for_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with FakeBroker() as broker:
        server = Server(config(broker), Metrics())
        await server.start()
        async with crowd(server) as socks:
            leave(socks, by_reset=True)
            async with asyncio.timeout(LIMIT_S):
                while server.metrics.disconnects.total() < 2:  # noqa: ASYNC110 - a later turn may be too late
                    await asyncio.sleep(0)
            assert server.connections
            hurry = asyncio.Event()
            hurry.set()
            await server.drain(hurry)
    assert not server.connections
    assert server.metrics.disconnects.total() == COUNT
    assert sum(server.metrics.active.values()) == 0
    ended = [vars(line)["session"] for line in caplog.records if line.message == "connection ended"]
    assert len(set(ended)) == len(ended) == COUNT
    assert len(server.closed) == COUNT


async def test_others_are_served_while_connections_wait_to_be_ended() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as honest:
        await honest.ask(HEARTBEAT)
        socks = [connect(port_of(server)) for _ in range(COUNT)]
        await until(lambda: len(server.connections) == COUNT + 1 and all(one.broker for one in server.connections))
        leave(socks, by_reset=True)
        assert (await honest.ask(HEARTBEAT))[8:] == b"node 1"
        await until(lambda: len(server.connections) == 1)
        assert (await honest.ask(HEARTBEAT))[8:] == b"node 1"


async def test_a_connection_that_has_ended_is_no_garbage_in_circles() -> None:
    """A collection that finds thousands of them would keep all others waiting."""
    async with FakeBroker() as broker, serving(broker) as server, crowd(server) as socks:
        gone = [weakref.ref(one) for one in server.connections]
        gc.disable()
        try:
            leave(socks, by_reset=False)
            await until(lambda: not any(one() for one in gone))
        finally:
            gc.enable()
