"""A paused direction: its peer is not read, the other direction continues, and no task is leaked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, connected, port_of, serving, until
from support.policies import Stub
from support.produce_requests import GOOD, batch, produce_request, results, stores

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime import sweep
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.server.server import Server

VERSION = 9
INVALID_RECORD = 87
GUARDED: dict[str, Any] = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [{"name": "orders", "policy": "stub"}],
}
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 50)


@asynccontextmanager
async def guarded() -> AsyncIterator[tuple[FakeBroker, Server, Client, Stub]]:
    """A broker, a sidecar in front of it, a client, and the policy; what the policy asks for takes until its gate
    is set."""
    async with FakeBroker() as broker, serving(broker, **GUARDED) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.PRODUCE] = stores
        policy = Stub.opened[-1]
        policy.gate.clear()
        yield broker, server, client, policy


def only(server: Server) -> Connection:
    (connection,) = server.connections
    return connection


def produced(broker: FakeBroker) -> list[bytes]:
    return [sent.frame for sent in broker.requests if sent.key == ApiKey.PRODUCE]


def waiting() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "meet PolicyFetch"]


HELD = produce_request(VERSION, {"orders": {0: batch("ask a"), 1: batch("ask a", "bad")}}, correlation_id=1)
LEFT = produce_request(VERSION, {"orders": {0: batch("ask a")}}, correlation_id=1)


async def test_a_request_that_waits_goes_on_when_its_wait_is_over() -> None:
    async with guarded() as (broker, _, client, policy):
        client.send(HELD)
        await until(lambda: policy.asked)
        assert produced(broker) == []
        policy.gate.set()
        answer = await client.frame()
        assert produced(broker) == [LEFT]
        assert results(VERSION, answer, 1) == [("orders", 0, 0, 0), ("orders", 1, INVALID_RECORD, -1)]
        assert waiting() == []
        client.send(produce_request(VERSION, {"orders": {0: GOOD}}, correlation_id=2))
        assert results(VERSION, await client.frame(), 2) == [("orders", 0, 0, 1)]


async def test_answers_to_pipelined_requests_keep_their_order_whoever_gives_them() -> None:
    async with guarded() as (_, _, client, policy):
        frames = [
            produce_request(VERSION, {"orders": {0: GOOD}}, correlation_id=1),
            produce_request(VERSION, {"orders": {0: batch("bad")}}, correlation_id=2),
            produce_request(VERSION, {"orders": {0: batch("ask a", "bad")}}, correlation_id=3),
            produce_request(VERSION, {"orders": {0: GOOD}}, correlation_id=4),
            produce_request(VERSION, {"orders": {0: batch("bad")}}, correlation_id=5),
        ]
        client.send(b"".join(frames))
        await until(lambda: policy.asked)
        policy.gate.set()
        answers = [results(VERSION, await client.frame(), number)[0][2:] for number in range(1, 6)]
        refused = (INVALID_RECORD, -1)
        assert answers == [(0, 0), refused, refused, (0, 1), refused]


async def test_the_client_is_not_read_while_its_request_waits_and_loses_nothing() -> None:
    async with guarded() as (broker, server, client, policy):
        client.send(HELD)
        await until(lambda: policy.asked)
        large = produce_request(VERSION, {"free": {0: batch("x" * (4 << 20))}}, correlation_id=2)
        client.send(large)
        await asyncio.sleep(0.1)
        assert only(server).bytes_from_client < len(HELD) + len(large) // 2
        transport = only(server).client.transport
        assert transport is not None
        assert not transport.is_reading()
        policy.gate.set()
        await client.frame()
        assert results(VERSION, await client.frame(), 2) == [("free", 0, 0, 1)]
        assert produced(broker) == [LEFT, large]


async def test_the_brokers_answers_pass_while_a_request_waits() -> None:
    async with guarded() as (broker, _, client, policy):
        gate = asyncio.Event()

        async def late(broker: FakeBroker, request: Any) -> bytes:
            await gate.wait()
            correlation_id: int = request.correlation_id
            return b"\0\0\0\x04" + correlation_id.to_bytes(4, "big")

        broker.answers[ApiKey.HEARTBEAT] = late
        client.send(HEARTBEAT + HELD)
        await until(lambda: policy.asked)
        gate.set()
        assert (await client.frame())[4:] == (50).to_bytes(4, "big")
        assert produced(broker) == []


async def test_other_connections_go_on_while_one_waits() -> None:
    async with guarded() as (_, server, client, policy):
        client.send(HELD)
        await until(lambda: policy.asked)
        async with connected(port_of(server)) as other:
            other.send(produce_request(VERSION, {"orders": {0: GOOD}}, correlation_id=9))
            assert results(VERSION, await other.frame(), 9) == [("orders", 0, 0, 0)]


@pytest.mark.parametrize("who", ["client", "client with unread bytes", "broker", "sidecar"])
async def test_a_connection_that_ends_while_it_waits_leaves_no_task(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "INTERVAL_S", 0.01)
    monkeypatch.setattr(sweep, "FINISH_S", 0.05)
    async with guarded() as (broker, server, client, policy):
        client.send(HELD)
        await until(lambda: policy.asked and waiting())
        connection = only(server)
        if who == "client":  # its connection is not read
            client.abort()
        elif who == "client with unread bytes":
            client.send(HEARTBEAT)
            client.close()
        elif who == "broker":
            broker.drop()
        else:
            transport = connection.client.transport
            assert transport is not None
            transport.abort()
        await until(lambda: not server.connections)
        await until(lambda: not waiting())
        assert not connection.session._request_driver.is_busy
        policy.gate.set()


class Panic(BaseException):
    """As libraries in Rust raise it."""


@pytest.mark.parametrize("error", [RuntimeError, Panic])
async def test_a_wait_that_breaks_ends_its_connection_and_no_other(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded() as (_, server, client, _):
        validator: Any = server.features.validator

        async def broken(*_: object) -> None:
            raise error("a bug")

        monkeypatch.setattr(validator._fetches, "resolve", broken)
        client.send(HELD)
        async with asyncio.timeout(5):
            assert await client.rest() == b""
        await until(lambda: not server.connections)
        assert server.metrics.disconnects == {"internal_error": 1}
        assert waiting() == []


@pytest.mark.parametrize("held", [False, True])
async def test_with_acks_0_what_is_left_reaches_the_broker_and_the_connection_ends(held: bool) -> None:
    async with guarded() as (broker, server, client, policy):
        bad = batch("ask a", "bad") if held else batch("bad")
        client.send(produce_request(VERSION, {"orders": {0: GOOD, 1: bad}}, acks=0, correlation_id=1) + HEARTBEAT)
        if held:
            await until(lambda: policy.asked)
            policy.gate.set()
        assert await client.rest() == b""
        await until(lambda: produced(broker))
        assert produced(broker) == [produce_request(VERSION, {"orders": {0: GOOD}}, acks=0, correlation_id=1)]
        await until(lambda: not server.connections)
        assert server.metrics.disconnects == {"rejected_without_acks": 1}
        assert HEARTBEAT not in [sent.frame for sent in broker.requests]


async def test_requests_sent_before_the_broker_is_connected_are_validated_too() -> None:
    async with guarded() as (broker, server, _, policy):
        policy.gate.set()
        for _ in range(20):
            async with connected(port_of(server)) as early:
                early.send(HELD)
                assert results(VERSION, await early.frame(), 1)[1] == ("orders", 1, INVALID_RECORD, -1)
                policy.known.clear()
        assert len(policy.asked) == 20
        assert len(produced(broker)) == 20
