"""A response that was buffered whole counts as buffered until the client has read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from support import oracle
from support.fake_broker import FakeBroker, Request
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.runtime.side import Activity, Flow, Side
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Buffered

SIZE = 16 << 20  # more than sockets buffer
VERSION = 9


async def describe_many(broker: FakeBroker, request: Request) -> bytes:
    """A Metadata response of `SIZE`: topics with long names."""
    topics = [{"name": f"{number:020000}"} for number in range(SIZE // 20_000)]
    brokers = [{"node_id": 1, "host": broker.host, "port": broker.port}]
    response = oracle.response(ApiKey.METADATA, VERSION, brokers=brokers, topics=topics)
    return oracle.response_frame(response, request.correlation_id)


def is_slow(server: Server) -> bool:
    """Whether the response has been written, and the client does not read it."""
    return any("the client reads slowly" in connection.client.reasons for connection in server.connections)


METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, VERSION), 8)


async def test_it_is_released_when_the_client_has_read_it() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.METADATA] = describe_many
        client.pause()
        client.send(METADATA)
        await until(lambda: is_slow(server))
        assert server.memory.spent > SIZE // 4
        client.resume()
        assert len(await client.frame()) > 0.9 * SIZE
        await until(lambda: server.memory.spent == 0)


async def test_it_is_released_when_the_client_goes() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.METADATA] = describe_many
        client.pause()
        client.send(METADATA)
        await until(lambda: is_slow(server))
        client.abort()
        await until(lambda: server.memory.spent == 0 and not server.connections)


class Slow(asyncio.Transport):
    """Of a client that does not read."""

    unsent = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def test_all_pieces_of_a_response_count_though_the_client_was_slow_at_the_first() -> None:
    account, side = Account(MemoryBudget(1 << 30, Buffered())), Side(1000)
    side.transport = transport = Slow()
    flow = Flow(account, side)
    flow.has_written()
    assert account.bytes == 0
    transport.unsent = 2 << 20
    flow.client_is_slow()
    assert account.bytes == 2 << 20
    transport.unsent = 60 << 20
    flow.has_written()
    transport.unsent = 30 << 20
    flow.has_written()
    assert account.bytes == 60 << 20
    flow.client_reads_again()
    assert account.bytes == 0


@dataclass
class Counts:
    bytes_from_client: int = 0
    bytes_from_broker: int = 0
    flow: Any = field(default_factory=lambda: SimpleNamespace(client_progress=0))
    client_is_paused: bool = False
    broker_is_paused: bool = False


def test_a_connection_is_quiet_from_its_start_until_a_byte_is_counted() -> None:
    counts, activity = Counts(), Activity(100.0)
    assert activity.quiet_s(counts, 107.0) == 7.0
    counts.bytes_from_broker = 1
    assert activity.quiet_s(counts, 108.0) == 0.0
    assert activity.quiet_s(counts, 110.0) == 2.0
    assert (activity.client_at, activity.broker_at) == (100.0, 108.0)


def test_a_peer_that_is_not_read_has_its_time_but_the_connection_is_quiet() -> None:
    counts, activity = Counts(client_is_paused=True), Activity(0.0)
    assert activity.quiet_s(counts, 50.0) == 50.0
    assert (activity.client_at, activity.broker_at) == (50.0, 0.0)
    counts.client_is_paused, counts.broker_is_paused = False, True
    assert activity.quiet_s(counts, 60.0) == 60.0
    assert (activity.client_at, activity.broker_at) == (50.0, 60.0)


def test_a_connection_is_not_quiet_while_its_client_reads() -> None:
    counts, activity = Counts(flow=SimpleNamespace(client_progress=-1000)), Activity(0.0)
    assert activity.quiet_s(counts, 1.0) == 0.0
    counts.flow.client_progress = -900
    assert activity.quiet_s(counts, 50.0) == 0.0
    assert activity.quiet_s(counts, 60.0) == 10.0
    assert (activity.client_at, activity.broker_at) == (0.0, 0.0)
