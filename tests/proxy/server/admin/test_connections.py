"""Open connections at the admin port."""

from __future__ import annotations

import json

import pytest
from support.admin import get, get_json, pages
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server.admin import connections as connections_module


async def test_open_connections_are_listed_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        assert await get_json(port, "/connections") == {"open": 0, "connections": []}
        async with connected(port_of(server)) as one, connected(port_of(server)) as other:
            for client in (one, other):
                await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
            found = await get_json(port, "/connections")
            assert (found["open"], [each["session"] for each in found["connections"]]) == (2, [2, 1])
            monkeypatch.setattr(connections_module, "MAX_LISTED", 1)
            found = await get_json(port, "/connections")
            assert (found["open"], [each["session"] for each in found["connections"]]) == (2, [2])


async def test_a_query_chooses_connections_by_client_and_listener() -> None:
    async with (
        FakeBroker(1) as broker,
        pages(broker) as (server, port),
        connected(port_of(server)) as one,
        connected(port_of(server)) as other,
    ):
        await one.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=b"shop 1"))
        await other.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=b"other"))
        peer = next(each.peer for each in server.connections if each.number == 1)

        async def found(query: str) -> list[int]:
            return [each["session"] for each in (await get_json(port, f"/connections?{query}"))["connections"]]

        assert await found("client_id=shop%201") == [1]
        assert await found(f"client={peer}&listener=bootstrap") == [1]
        assert await found("client=127.0.0.1") == [2, 1]
        assert await found("listener=node%201") == []


async def test_the_last_requests_of_one_connection_are_shown() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 7))
        (found,) = (await get_json(port, "/connections/1"))["connections"]
        assert (found["session"], [line["correlation_id"] for line in found["last_requests"]]) == (1, [7])
        status, _, body = await get(port, "/connections/2")
        assert (status, json.loads(body)) == (404, {"error": "connection 2 is not open"})


async def test_no_requests_are_recorded_where_that_is_disabled() -> None:
    settings = {"connections": {"recorded_requests": 0}}
    async with (
        FakeBroker(1) as broker,
        pages(broker, **settings) as (server, port),
        connected(port_of(server)) as client,
    ):
        await client.ask(request(ApiKey.HEARTBEAT, 3, 7))
        (found,) = (await get_json(port, "/connections/1"))["connections"]
        assert found["last_requests"] == []
