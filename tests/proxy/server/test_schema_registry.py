"""A sidecar whose policy asks a schema registry: who waits, for how long, and what the registry is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from support.fake_broker import FakeBroker
from support.http_registry import ORDER, FakeRegistry, failing, running, silent
from support.in_process import Client, connected, port_of, serving
from support.produce_requests import produce_request, results, stores

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.proxy.server.server import Server

VERSION, CORRELATION_ID = 9, 7
OK, INVALID_RECORD = 0, 87


def order(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"\2"


async def produce(client: Client, schema_id: int, topic: str = "orders") -> int:
    """The error code."""
    records = build_batch([NewRecord(order(schema_id))])
    response = await client.ask(produce_request(VERSION, {topic: {0: records}}, correlation_id=CORRELATION_ID))
    ((_, _, code, _),) = results(VERSION, response, CORRELATION_ID)
    return code


@pytest.fixture(name="fake")
def _fake() -> Iterator[FakeRegistry]:
    with running() as fake:
        yield fake


@asynccontextmanager
async def sidecar(fake: FakeRegistry, **policy: Any) -> AsyncIterator[Server]:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.PRODUCE] = stores
        async with serving(
            broker,
            schema_registries={"main": {"urls": fake.url, "timeout": "1s"}},
            policies={"asks": {"type": "schema", "registry": "main", "require": "known", **policy}},
            topics=[{"name": "orders", "policy": "asks"}],
        ) as server:
            yield server


async def test_200_connections_and_one_id_make_one_request(fake: FakeRegistry) -> None:
    fake.delay_s = 0.2
    number = fake.add("orders-value", ORDER)
    async with sidecar(fake) as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(port_of(server))) for _ in range(200)]
        assert await asyncio.gather(*(produce(client, number) for client in clients)) == [OK] * 200
        assert fake.requests == [f"/schemas/ids/{number}"]
        assert await asyncio.gather(*(produce(client, 99) for client in clients)) == [INVALID_RECORD] * 200
        assert fake.requests == [f"/schemas/ids/{number}", "/schemas/ids/99"]


async def test_others_do_not_wait_for_a_registry_that_is_silent(fake: FakeRegistry) -> None:
    number = fake.add("orders-value", ORDER)
    async with sidecar(fake) as server, connected(port_of(server)) as known, connected(port_of(server)) as waiting:
        assert await produce(known, number) == OK
        fake.behaviour = silent
        late = asyncio.ensure_future(produce(waiting, 99))
        for _ in range(5):
            assert await produce(known, number) == OK
        assert not late.done()
        assert await late not in (OK, INVALID_RECORD)


async def test_records_whose_schema_is_not_known_are_for_now_rejected_or_accepted_in_an_outage(
    fake: FakeRegistry,
) -> None:
    fake.behaviour = failing(503)
    for on_registry_error, is_accepted in (("reject", False), ("allow", True)):
        async with sidecar(fake, on_registry_error=on_registry_error) as server, connected(port_of(server)) as client:
            code = await produce(client, 1)
            assert (code == OK) is is_accepted
            assert code != INVALID_RECORD  # producers would not try again


async def test_a_client_with_many_unknown_ids_does_not_keep_others_from_theirs(fake: FakeRegistry) -> None:
    number = fake.add("orders-value", ORDER)
    async with sidecar(fake) as server, connected(port_of(server)) as hostile, connected(port_of(server)) as honest:

        async def flood() -> None:
            for schema_id in range(1000, 11_000):
                assert await produce(hostile, schema_id) == INVALID_RECORD

        began = time.monotonic()
        flooding = asyncio.ensure_future(flood())
        await asyncio.sleep(1)
        before = len(fake.requests)
        assert await produce(honest, number) == OK
        assert fake.requests[before:].index(f"/schemas/ids/{number}") < 10  # of the other's, one in each turn
        assert len(fake.requests) <= 100 + 20 * (time.monotonic() - began) + 5
        flooding.cancel()
