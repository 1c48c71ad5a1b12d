"""With 10,000 topics and 10,000 connections a snapshot has a bounded size, and is taken in many short turns."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from support.admin import pages, protocols
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime import connection_state
from kafka_sidecar.proxy.runtime.connection_state import first_to_show
from kafka_sidecar.proxy.runtime.program import collections_paused
from kafka_sidecar.proxy.server.admin.live.encoding import encode
from kafka_sidecar.proxy.server.admin.live.live import Live
from kafka_sidecar.proxy.server.admin.live.sample import MAX_ALL_SERIES, MAX_ROWS, MAX_SERIES, MIN_SERIES, STATE
from kafka_sidecar.proxy.server.admin.live.series import MAX_SERIES_SHOWN, MAX_TOPICS_SHOWN
from kafka_sidecar.proxy.server.admin.live.snapshot import Histories
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.telemetry.metrics import Durations, Family, counter, histogram

MANY = 10_000
PARTS = ("topics", "connections", "rejections")
METRICS = 12  # by topic
NAME = "n" * 240  # of topics and clients, whose numbers follow


def live() -> Live:
    admin = protocols[-1].admin
    assert isinstance(admin, Admin)
    return admin._live


def families() -> Iterator[Family]:
    values = {f"{NAME}{number:05}": number for number in range(MANY)}
    for number in range(METRICS):
        yield counter(f"by_topic_{number}", "A counter", values, "topic")
    yield counter("by_client", "A counter", values, "client_id")
    durations = {name: Durations([0, number, 3], 1.0) for name, number in values.items()}
    yield histogram("seconds", "A histogram", durations, "topic")


@asynccontextmanager
async def filled() -> AsyncIterator[None]:
    """A sidecar with very many topics and connections; the latter are copies of one."""
    async with FakeBroker(1) as broker, pages(broker) as (server, _), connected(port_of(server)) as client:
        server.topics.remember((number.to_bytes(16, "big"), f"{NAME}{number:05}") for number in range(1, MANY + 1))
        server.metrics.features.append(families)
        server.closed.extend([(1.0, {"session": number, "detail": NAME}) for number in range(MANY)])
        await client.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=NAME.encode()))
        (real,) = server.connections
        copies = [copy.copy(real) for _ in range(MANY - 1)]
        for number, one in enumerate(copies, 2):
            one.number = number
            server.connections[one] = None
        yield
        for one in copies:
            del server.connections[one]


async def test_what_is_sampled_and_sent_is_bounded() -> None:
    async with filled():
        histories, source = Histories(), live()._source
        for _ in range(2):
            sample = await source(frozenset({STATE}))
            snapshot = histories.snapshot(sample)
        parts = {part: await live()._part(part) for part in PARTS}
    taken = [one for group in sample[0]["metrics"].values() for one in group]
    assert sum(len(one["samples"]) for one in taken) <= MAX_ALL_SERIES + MAX_SERIES + MIN_SERIES * len(taken)
    by_name = {one["name"]: one for one in snapshot["metrics"]["engine"]}
    for name, shown in (("by_topic_0", MAX_TOPICS_SHOWN), ("by_client", MAX_SERIES_SHOWN), ("seconds", MIN_SERIES)):
        assert (len(by_name[name]["rows"]), by_name[name]["not_shown"]) == (shown, MANY - shown)
    assert by_name["by_topic_0"]["rows"][0]["value"] == MAX_SERIES - 1
    found = {part: json.loads(b"{%b}" % data)[part] for part, data in parts.items()}
    assert (found["topics"]["known"], len(found["topics"]["rows"])) == (MANY + 1, MAX_ROWS)
    assert (found["connections"]["open"], len(found["connections"]["rows"])) == (MANY, MAX_ROWS)
    assert len(found["connections"]["closed"]) <= MAX_ROWS
    # Names are nearly as long as they may be.
    assert len(encode(snapshot)) < 3_000_000
    assert {part: len(data) < 300_000 for part, data in parts.items()} == dict.fromkeys(PARTS, True)


async def test_others_have_turns_while_very_many_connections_are_looked_at() -> None:
    async with filled():
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        await live()._part("connections")
        task.cancel()
    assert turns >= MANY / connection_state.LOOKED_AT_PER_TURN


class Seen:
    """As a connection, with what decides its place."""

    def __init__(self, number: int, oldest_since: float | None = None, is_paused: bool = False) -> None:
        self.number, self.is_paused, self.session = number, is_paused, self
        self.oldest_since = oldest_since


async def test_connections_that_wait_come_first_the_longest_before_others_then_the_newest(monkeypatch: Any) -> None:
    monkeypatch.setattr(connection_state, "LOOKED_AT_PER_TURN", 7)
    monkeypatch.setattr(time, "perf_counter", lambda: 100.0)
    all_of = [Seen(number, oldest_since=99.9) for number in range(50)]
    all_of[3].is_paused = True
    all_of[20].oldest_since, all_of[30].oldest_since = 50.0, 40.0
    all_of[49].oldest_since = None
    found = await first_to_show(dict.fromkeys(all_of), 6)  # type: ignore[arg-type]
    assert [one.number for one in found] == [3, 30, 20, 49, 48, 47]
    monkeypatch.setattr(connection_state, "MAX_LOOKED_AT", 20)
    found = await first_to_show(dict.fromkeys(all_of), 3)  # type: ignore[arg-type]
    assert [one.number for one in found] == [30, 49, 48]


async def test_a_connection_that_ends_meanwhile_is_not_shown(monkeypatch: Any) -> None:
    monkeypatch.setattr(connection_state, "LOOKED_AT_PER_TURN", 1)
    connections = {Seen(number): None for number in range(3)}
    looking = asyncio.ensure_future(first_to_show(connections, 5))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    connections.popitem()
    assert [one.number for one in await looking] == [1, 0]


def test_objects_are_not_collected_while_a_snapshot_is_made() -> None:
    assert gc.isenabled()
    with collections_paused():
        assert not gc.isenabled()
        with collections_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
