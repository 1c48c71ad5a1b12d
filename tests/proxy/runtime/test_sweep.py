"""What is found by looking at all connections every two seconds: idle ones, stuck ones, memory that is not used."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker, Request, after, hang_up, named, stall
from support.in_process import connected, port_of, serving, until
from support.produce_requests import batch, produce_request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.runtime import sweep as sweep_module
from kafka_sidecar.proxy.runtime.connection import CLIENT_CLOSED, Connection
from kafka_sidecar.proxy.runtime.sweep import (
    ENDED_PER_TURN,
    MIN_RATE,
    RELEASED_BYTES,
    SLOW_S,
    SlowReaders,
    Sweep,
    _share,
    finish,
    finish_connections,
)
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.server.server import DRAIN, Server
from kafka_sidecar.proxy.telemetry.metrics import Buffered

FETCH = request(ApiKey.FETCH, 11, 7, bytes(40))


HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 8)
MAX_IDLE_S, FRAME_TIMEOUT_S = 600.0, 30.0


def only(server: Server) -> Connection:
    (connection,) = server.connections
    return connection


def cause_after(server: Server, *times: float) -> str | None:
    """Why the connection has to end at the last of these times (seconds from its start), after looks at the others."""
    sweep = Sweep(server.connections, server.memory, Threads(1), MAX_IDLE_S, FRAME_TIMEOUT_S)
    connection = only(server)
    start = connection.began
    closing = None
    for time in times:
        closing = sweep.overdue(connection, start + time)
    return closing.cause if closing else None


async def test_a_connection_is_idle_once_no_byte_was_sent_for_max_idle() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        assert cause_after(server, 1, 600.5) is None
        assert cause_after(server, 1, 601.1) == "idle"
        await client.ask(HEARTBEAT)
        assert cause_after(server, 601, 1200) is None


async def test_a_client_that_reads_a_response_slowly_is_not_idle() -> None:
    value = bytes(64 << 20)  # more than sockets hold
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        connection = only(server)
        client.pause()
        assert connection.to_client is not None
        connection.to_client.write(value)
        sweep = Sweep(server.connections, server.memory, Threads(1), MAX_IDLE_S, FRAME_TIMEOUT_S)
        start, sent = connection.began, connection.flow.client_progress
        assert sweep.overdue(connection, start + 1) is None
        client.resume()
        while connection.flow.client_progress <= sent + (4 << 20):
            await client.some()
        client.pause()
        assert sweep.overdue(connection, start + 1000) is None
        assert cause_after(server, 1500, 10_000) == "idle"


async def test_a_client_that_never_sends_anything_is_idle() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)):
        await until(lambda: server.connections)
        assert cause_after(server, 599) is None
        assert cause_after(server, 601) == "idle"
        await until(lambda: broker.open <= 1)  # the sidecar's own: nothing was dialled for the client


async def test_a_client_that_waits_for_a_response_is_not_idle() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.HEARTBEAT] = stall
        client.send(HEARTBEAT)
        await until(lambda: server.connections and only(server).session.in_flight)
        assert cause_after(server, 1, 10_000) is None


@pytest.mark.parametrize("sent", [HEARTBEAT[:6], HEARTBEAT[:-1], METADATA[:-1]])
async def test_a_request_that_does_not_grow_ends_the_connection(sent: bytes) -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        client.send(sent)
        await until(lambda: server.connections and only(server).session.incomplete[0])
        assert cause_after(server, 1, 30.5) is None
        assert cause_after(server, 1, 31.1) == "frame_timeout"


async def test_a_request_whose_client_is_not_read_has_time() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        client.send(HEARTBEAT[:-1])
        await until(lambda: server.connections and only(server).session.incomplete[0])
        only(server).flow.pause_for_memory()
        assert cause_after(server, 1, 500, 510) is None
        only(server).flow.resume_after_memory()
        assert cause_after(server, 539) is None
        assert cause_after(server, 540.1) == "frame_timeout"


async def test_a_response_that_does_not_grow_ends_the_connection() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:

        async def half(broker: FakeBroker, request: Any) -> bytes:
            return b"\0\0\1\0\0\0\0\7half a response"

        broker.answers[ApiKey.HEARTBEAT] = half
        client.send(HEARTBEAT)
        await client.some()
        assert cause_after(server, 1, 30.5) is None
        assert cause_after(server, 1, 31.1) == "frame_timeout"


async def test_the_sweep_ends_what_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "INTERVAL_S", 0.01)
    limits = {"frame_timeout": "100ms", "max_idle": "500ms"}
    async with FakeBroker() as broker, serving(broker, connections=limits) as server:
        async with connected(port_of(server)) as idle, connected(port_of(server)) as stuck:
            stuck.send(HEARTBEAT[:-1])
            assert await idle.rest() == b""
            assert await stuck.rest() == b""
        await until(lambda: server.metrics.disconnects == {"idle": 1, "frame_timeout": 1})


class Ending:
    """A connection that is gone once it is ended."""

    def __init__(self, left: set[Any]) -> None:
        self._left = left
        left.add(self)

    def end(self, closing: object) -> None:
        self._left.remove(self)


async def test_others_have_a_turn_while_many_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "INTERVAL_S", 0.0)
    monkeypatch.setattr(Sweep, "overdue", lambda *_: CLIENT_CLOSED)
    left: set[Any] = set()
    for _ in range(3 * ENDED_PER_TURN):
        Ending(left)
    sweep = Sweep(left, MemoryBudget(1 << 30, Buffered()), Threads(1), MAX_IDLE_S, FRAME_TIMEOUT_S)
    running, seen = spawn(sweep.run(), "sweep"), [len(left)]
    while left:
        await asyncio.sleep(0)
        seen.append(len(left))
    running.cancel()
    assert max(before - after for before, after in pairwise(seen)) == ENDED_PER_TURN


async def test_an_old_connection_ends_between_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "INTERVAL_S", 0.01)
    async with FakeBroker() as broker, serving(broker, connections={"max_age": "200ms"}) as server:
        broker.answers[ApiKey.HEARTBEAT] = after(0.5, named)
        async with connected(port_of(server)) as client, connected(port_of(server)) as idle:
            client.send(HEARTBEAT)
            assert await idle.rest() == b""
            assert b"node 1" in await client.rest()
        await until(lambda: server.metrics.disconnects == {"max_age": 2})


async def test_an_old_connection_that_is_never_without_requests_is_read_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep_module, "INTERVAL_S", 0.01)
    monkeypatch.setattr(sweep_module, "AGED_PATIENCE_S", 0.1)
    async with FakeBroker() as broker, serving(broker, connections={"max_age": "50ms"}) as server:
        broker.answers[ApiKey.HEARTBEAT] = after(0.02, named)
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT * 100)
            answered = await client.rest()
        await until(lambda: server.metrics.disconnects == {"max_age": 1})
        read = sum(one.key == ApiKey.HEARTBEAT for one in broker.requests)
        assert answered.count(b"node 1") == read > 0


def test_connections_of_one_moment_do_not_end_in_one_moment() -> None:
    shares = sorted(_share(number) for number in range(1, 101))
    assert 0.8 <= shares[0] < 0.81
    assert 0.99 < shares[-1] <= 1
    assert max(later - sooner for sooner, later in pairwise(shares)) < 0.01


async def test_a_client_that_sends_no_more_waits_for_its_responses_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep_module, "INTERVAL_S", 0.01)
    monkeypatch.setattr(sweep_module, "FINISH_S", 0.05)
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.HEARTBEAT] = stall
        client.send(HEARTBEAT)
        client.send_eof()
        assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects == {"client_closed": 1})


async def test_a_client_that_sends_no_more_gets_all_responses_as_from_a_broker() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        client.send(HEARTBEAT * 5)
        client.send_eof()
        responses = await client.rest()
        assert responses.count(b"node 1") == 5
        await until(lambda: server.metrics.disconnects == {"client_closed": 1})


async def test_a_batch_without_acks_that_is_rejected_ends_the_connection_after_earlier_responses() -> None:
    guarded: dict[str, Any] = {
        "policies": {"stub": {"type": "support.policies:Stub"}},
        "topics": [{"name": "orders", "policy": "stub"}],
    }
    async with FakeBroker() as broker, serving(broker, **guarded) as server, connected(port_of(server)) as client:
        client.send(HEARTBEAT * 3 + produce_request(9, {"orders": {0: batch("bad")}}, acks=0) + HEARTBEAT)
        assert (await client.rest()).count(b"node 1") == 3
        await until(lambda: server.metrics.disconnects == {"rejected_without_acks": 1})


async def test_memory_is_returned_once_much_less_is_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[bool] = []
    monkeypatch.setattr(sweep_module, "release_unused_memory", lambda: returned.append(True))
    memory = MemoryBudget(1 << 30, Buffered())
    sweep = Sweep([], memory, Threads(1), MAX_IDLE_S, FRAME_TIMEOUT_S)
    account = Account(memory)
    account.add(RELEASED_BYTES + 1)
    sweep._release()
    account.release(RELEASED_BYTES - 1)
    sweep._release()
    assert returned == []
    account.release(1)
    sweep._release()
    sweep._release()
    assert returned == [True]


async def test_memory_is_returned_twice_after_threads_have_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread has inflated may be referred to for a moment after its work."""
    returned: list[int] = []
    number = 0
    monkeypatch.setattr(sweep_module, "release_unused_memory", lambda: returned.append(number))
    threads = Threads(1)
    sweep = Sweep([], MemoryBudget(1 << 30, Buffered()), threads, MAX_IDLE_S, FRAME_TIMEOUT_S)
    for number in range(8):
        if number in {2, 5}:
            threads.submit("a", lambda: None).future.result(5)
        sweep._release()
    assert returned == [2, 3, 5, 6]


async def test_clients_that_buffer_too_much_together_are_served_one_after_the_other() -> None:
    guarded: dict[str, Any] = {
        "policies": {"stub": {"type": "support.policies:Stub"}},
        "topics": [{"name": "orders", "policy": "stub"}],
        "connections": {"max_buffered": "1MiB"},
    }
    large = produce_request(9, {"orders": {0: batch("x" * (3 << 20))}}, correlation_id=1)
    async with FakeBroker() as broker, serving(broker, **guarded) as server:
        async with connected(port_of(server)) as one, connected(port_of(server)) as two:
            one.send(large[:-1])
            await until(lambda: server.memory.spent == len(large) - 1)
            two.send(large)
            await until(lambda: server.metrics.buffered.pauses == 1)
            assert server.memory.spent < 2 * len(large) - (1 << 20)
            one.send(large[-1:])
            for client in (one, two):
                assert (await client.frame())[4:8] == b"\0\0\0\1"
        await until(lambda: not server.connections)
        assert server.memory.spent == 0


async def test_who_does_not_read_is_ended_while_others_wait_for_memory() -> None:
    guarded: dict[str, Any] = {
        "policies": {"stub": {"type": "support.policies:Stub"}},
        "topics": [{"name": "orders", "policy": "stub"}],
        "connections": {"max_buffered": "1MiB"},
    }
    large = produce_request(9, {"orders": {0: batch("x" * (3 << 20))}}, correlation_id=1)
    async with FakeBroker() as broker, serving(broker, **guarded) as server:
        port = port_of(server)
        async with connected(port) as silent, connected(port) as slow, connected(port) as honest:
            for client in (silent, slow, honest):
                await client.ask(HEARTBEAT)
            held = sorted(server.connections, key=lambda one: one.number)[:2]
            for client, connection in zip((silent, slow), held, strict=True):
                client.pause()
                assert connection.to_client is not None
                connection.to_client.write(bytes(64 << 20))
            await until(lambda: all(one.flow.unsent for one in held))
            readers, start = SlowReaders(server.memory), 1000.0
            assert readers.slowest(server.connections, start) is None
            assert readers.slowest(server.connections, start + SLOW_S) is None  # no other waits
            honest.send(large)
            await until(lambda: server.memory.is_waited_for({one.flow.account for one in held}))
            for connection in held:  # `silent` reads less than `slow`
                if connection is held[0]:
                    before = held[1].flow.client_progress
                    slow.resume()
                    while held[1].flow.client_progress <= before + MIN_RATE:
                        await slow.some()
                    slow.pause()
                now = start + 1000 * SLOW_S
                found = readers.slowest(server.connections, now)
                assert found is not None
                assert found.connection is connection
                found.end(now)
                await until(lambda: found.connection not in server.connections)  # noqa: B023
            assert (await honest.frame())[4:8] == b"\0\0\0\1"
            assert server.metrics.disconnects == {"slow_reader": 2}


async def test_a_client_that_reads_fast_enough_goes_on_although_others_wait_for_memory() -> None:
    memory = MemoryBudget(1000, Buffered())
    others = [Account(memory) for _ in range(2)]
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(HEARTBEAT)
        connection, now = only(server), 1000.0
        client.pause()
        assert connection.to_client is not None
        connection.to_client.write(bytes(64 << 20))
        await until(lambda: connection.flow.unsent > 0)
        for other in others:
            other.add(900)
        assert memory.is_waited_for(set())
        readers = SlowReaders(memory)
        client.resume()
        for _ in range(5):
            assert readers.slowest(server.connections, now) is None
            before = connection.flow.client_progress
            while connection.flow.client_progress <= before + SLOW_S * MIN_RATE:
                await client.some()
            now += SLOW_S
        assert readers.slowest(server.connections, now) is None
        client.pause()
        await asyncio.sleep(0.1)
        assert readers.slowest(server.connections, now + 1) is None
        assert readers.slowest(server.connections, now + 1000) is not None


async def test_a_broker_that_ends_within_a_response_leaves_nothing_buffered() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.METADATA] = hang_up(b"\0\x10\0\0\0\0\0\x08" + bytes(100_000))
        client.send(METADATA)
        assert await client.rest() == b""
        await until(lambda: not server.connections)
        assert (server.memory.spent, server.memory.peak) == (0, 100_008)


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
