"""Slow peers, many clients, drains: bounded buffers, and everything opened is closed."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections import Counter
from typing import Any

import pytest
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker, fixed, hang_up, named, stall
from support.in_process import Client, connected, port_of, serving, until, until_refused

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange_driver import MAX_TURN_S
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.side import MIN_CHUNK_BYTES
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.server.server import Server

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
FETCH = request(ApiKey.FETCH, 11, 7, bytes(40))
ENDPOINTS_FETCH = oracle.request_frame(oracle.request(ApiKey.FETCH, 17), 7)
MAX_READ_BYTES = 256 << 10  # of asyncio's transports; uvloop's is a little less
WINDOW = 64 << 10
SMALL: dict[str, Any] = {"connections": {"window": WINDOW}}
LARGE = oracle.framed(bytes(4) + bytes(range(256)) * 4096 * 12)


def only(server: Server) -> Connection:
    (connection,) = server.connections
    return connection


def buffered(connection: Connection) -> tuple[int, int]:
    """Bytes in the two write buffers: for the client, for the broker."""
    sides = connection.client.transport, connection.broker.transport if connection.broker else None
    waiting = [side.get_write_buffer_size() if side is not None else 0 for side in sides]
    return waiting[0], waiting[1]


async def settled_buffers(connection: Connection) -> tuple[int, int]:
    """The buffered bytes once they no longer change."""
    seen: list[tuple[tuple[int, int], int, int]] = []
    while len(seen) < 3 or seen[-3:] != seen[-1:] * 3:
        await asyncio.sleep(0.02)
        seen.append((buffered(connection), connection.bytes_from_broker, connection.bytes_from_client))
    return seen[-1][0]


async def test_for_a_client_that_does_not_read_one_window_and_one_read_are_buffered() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.FETCH] = fixed(LARGE)
        client.pause()
        client.send(FETCH)
        await until(lambda: broker.requests and server.connections and only(server).bytes_from_broker)
        for_client, for_broker = await settled_buffers(only(server))
        assert 0 < for_client <= WINDOW + MAX_READ_BYTES
        assert for_broker == 0
        assert only(server).bytes_from_broker < len(LARGE) // 2
        client.resume()
        assert await client.frame() == LARGE[:4] + b"\0\0\0\7" + LARGE[8:]


async def test_a_connection_that_has_let_others_have_a_turn_is_read_again_in_the_next_one() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        connection = only(server)
        connection.flow.pause_for_turn()
        assert connection.client_is_paused
        assert connection.broker_is_paused
        await asyncio.sleep(0)
        assert not connection.client_is_paused
        assert not connection.broker_is_paused
        assert (await client.ask(HEARTBEAT))[8:] == b"node 1"


@pytest.mark.parametrize("side", ["from_client", "from_broker"])
async def test_a_peer_that_sends_megabytes_which_take_long_to_look_into_leaves_others_their_turns(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libuv reads a socket 32 times in one turn of the loop, as long as there is something to fill its buffer with."""
    took_s, ticks, reads = 0.004, 0, list[int]()
    look = getattr(Session, side)

    def slow(session: Session, chunk: bytes) -> bytes:
        reads.append(ticks)
        out: bytes = look(session, chunk)
        if len(chunk) > MIN_CHUNK_BYTES:
            time.sleep(took_s)
        return out

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.FETCH] = fixed(LARGE)
        await client.ask(HEARTBEAT)
        monkeypatch.setattr(Session, side, slow)
        ticking = spawn(tick(), "tick")
        client.send(request(ApiKey.FETCH, 11, 7, bytes(8 << 20)))
        got = len(await client.frame())
        ticking.cancel()
        assert got == len(LARGE)
        assert len(reads) > 12
        assert max(Counter(reads).values()) <= 1 + MAX_TURN_S / took_s


async def test_a_slow_client_gets_every_byte() -> None:
    response = oracle.response_frame(
        oracle.response(1, 17, responses=[{"partitions": [{"records": bytes(range(250)) * 8000}]}]), 7
    )
    async with FakeBroker() as broker, serving(broker, **SMALL) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.FETCH] = fixed(response)
        for _ in range(3):
            client.send(ENDPOINTS_FETCH)
            got = b""
            while len(got) < len(response):
                client.pause()
                await asyncio.sleep(0.001)
                client.resume()
                got += await client.some()
            assert got == response


async def test_for_a_broker_that_does_not_read_one_window_and_one_read_are_buffered() -> None:
    asked = request(ApiKey.HEARTBEAT, 3, 7, bytes(1 << 20))
    async with FakeBroker() as broker, serving(broker, **SMALL) as server, connected(port_of(server)) as client:
        broker.reading.clear()
        client.send(asked * 24)
        await until(lambda: server.connections and only(server).bytes_from_client)
        for_client, for_broker = await settled_buffers(only(server))
        assert 0 < for_broker <= WINDOW + MAX_READ_BYTES
        assert for_client == 0
        broker.reading.set()
        await until(lambda: len(broker.requests) >= 24)
        assert {asked.frame for asked in broker.requests if asked.key == ApiKey.HEARTBEAT} == {asked}


async def test_a_slow_client_that_disconnects_ends_the_brokers_connection_too() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server:
        broker.answers[ApiKey.FETCH] = fixed(LARGE)
        async with connected(port_of(server)) as client:
            client.pause()
            client.send(FETCH)
            await until(lambda: server.connections and buffered(only(server))[0] > WINDOW)
            client.abort()
        await until(lambda: not server.connections)
        await until(lambda: not broker.open)


async def test_a_broker_that_disconnects_within_a_response_ends_the_clients_connection_after_its_bytes() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.HEARTBEAT] = hang_up(b"\0\0\1\0\0\0\0\7half an answer")
        client.send(HEARTBEAT)
        assert await client.rest() == b"\0\0\1\0\0\0\0\7half an answer"
        await until(lambda: server.metrics.disconnects["broker_closed"] == 1)


async def test_probes_that_only_connect_leak_nothing() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server:
        for turn in range(10):
            clients = [await Client.connect(port_of(server)) for _ in range(20)]
            for number, client in enumerate(clients):
                (client.abort if number % 2 else client.close)()
            await asyncio.sleep(0.001 * (turn % 3))
        await until(lambda: sum(server.metrics.connections.values()) == 200 and not server.connections)
        assert sum(server.metrics.disconnects.values()) == 200
        assert set(server.metrics.active.values()) == {0}
        await until(lambda: not broker.open)


async def test_clients_that_disconnect_before_the_broker_is_connected_leak_nothing() -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        dead.listen(0)
        fillers = [socket.create_connection(dead.getsockname(), 1) for _ in range(1)]
        limits = {"connect_timeout": "200ms", "broker_wait": "200ms"}
        async with serving("{}:{}".format(*dead.getsockname()), connections=limits) as server:
            clients = [await Client.connect(port_of(server)) for _ in range(30)]
            for number, client in enumerate(clients):
                if number % 2:
                    client.send(HEARTBEAT)
                client.close()
            await until(lambda: sum(server.metrics.disconnects.values()) == 30)
            assert (len(server.connections), set(server.metrics.active.values())) == (0, {0})
        for filler in fillers:
            filler.close()


def connections_in_memory() -> list[object]:
    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing) is Connection]


async def test_no_task_is_left_when_connections_and_sidecar_have_ended() -> None:
    before = asyncio.all_tasks()
    async with FakeBroker() as broker:
        async with serving(broker, **SMALL) as server:
            for _ in range(5):
                async with connected(port_of(server)) as client:
                    await client.ask(HEARTBEAT)
            await until(lambda: not server.connections)
        await until(lambda: not broker.open)
    await until(lambda: asyncio.all_tasks() == before)
    await until(lambda: not connections_in_memory())


async def test_bytes_that_are_not_kafka_end_the_connection_and_get_one_log_line_in_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server:
        for _ in range(20):
            async with connected(port_of(server)) as client:
                client.send(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
                assert await client.rest() == b""
        await until(lambda: not server.connections)
        assert server.metrics.disconnects == {"not_kafka": 20}
        ends = [record for record in caplog.records if record.message == "connection ended"]
        assert [(record.levelname, vars(record)["cause"]) for record in ends] == [("WARNING", "not_kafka")]


async def test_a_tls_alert_of_a_broker_ends_the_connection_as_unreadable() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server:
        broker.answers[ApiKey.HEARTBEAT] = hang_up(bytes.fromhex("15030300020250"))
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects == {"unreadable_response": 1})


async def test_a_drain_serves_open_connections_and_refuses_new_ones() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        draining = asyncio.ensure_future(server.drain(asyncio.Event()))
        await until(lambda: not server.listening)
        await until_refused(port_of(server))
        assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
        assert not draining.done()
        client.close()
        async with asyncio.timeout(1):
            await draining
        # The first try to connect may come in before the port is closed.
        assert server.metrics.disconnects.keys() == {"client_closed"}


@pytest.mark.parametrize("ended", ["by the limit", "by a second signal"])
async def test_the_end_of_a_drain_closes_open_connections(ended: str) -> None:
    limit = {"drain_timeout": "50ms" if ended == "by the limit" else "1h"}
    async with FakeBroker() as broker, serving(broker, connections=limit) as server:
        broker.answers[ApiKey.HEARTBEAT] = stall
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            await until(lambda: any(asked.key == ApiKey.HEARTBEAT for asked in broker.requests))
            hurry = asyncio.Event()
            draining = asyncio.ensure_future(server.drain(hurry))
            await until(lambda: not server.listening)
            assert not draining.done()
            if ended == "by a second signal":
                hurry.set()
            async with asyncio.timeout(1):
                await draining
            assert server.metrics.disconnects == {"drain": 1}
            assert await client.rest() == b""


async def test_a_drain_without_connections_ends_at_once() -> None:
    async with FakeBroker() as broker, serving(broker, connections={"drain_timeout": "1h"}) as server:
        async with asyncio.timeout(1):
            await server.drain(asyncio.Event())


async def test_two_hundred_concurrent_clients_are_served() -> None:
    async with FakeBroker() as broker, serving(broker, **SMALL) as server:
        broker.answers[ApiKey.HEARTBEAT] = named

        async def talk(number: int) -> None:
            async with connected(port_of(server)) as client:
                for size in (0, 1, 3000):
                    asked = request(ApiKey.HEARTBEAT, 3, number, bytes(size))
                    assert int.from_bytes((await client.ask(asked))[4:8], "big") == number

        await asyncio.gather(*(talk(number) for number in range(200)))
        await until(lambda: not server.connections)
        assert server.metrics.disconnects == {"client_closed": 200}
