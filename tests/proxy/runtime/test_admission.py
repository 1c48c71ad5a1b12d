"""How many connections are accepted: in all, from one address, and as open files allow."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime import admission
from kafka_sidecar.proxy.runtime.admission import Admission, connections_that_fit

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


def test_connections_over_the_limit_are_refused_until_another_one_ends() -> None:
    admission = Admission(2, None)
    assert [admission.enter("a"), admission.enter("b")] == [None, None]
    refused = admission.enter("c")
    assert refused is not None
    assert (refused.cause, refused.detail) == (
        "too_many_connections", "2 connections are open (connections.max_connections)",
    )  # fmt: skip
    admission.leave("c")
    admission.leave("a")
    assert admission.enter("c") is None


def test_one_address_has_a_limit_of_its_own() -> None:
    admission = Admission(100, 1)
    assert [admission.enter("a"), admission.enter("b")] == [None, None]
    refused = admission.enter("a")
    assert refused is not None
    assert refused.detail == "1 connections of a are open (connections.max_connections_per_ip)"
    for ip in ("a", "a", "b"):
        admission.leave(ip)
    assert admission.enter("a") is None


@pytest.mark.parametrize(("files", "connections"), [(1024, 462), (50, 1), (resource.RLIM_INFINITY, 1 << 30)])
def test_each_connection_needs_two_open_files(files: int, connections: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (files, files))
    assert connections_that_fit() == connections


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: wanted.append(limit))
    admission.raise_file_limit()
    assert wanted == [(resource.RLIMIT_NOFILE, (4096, 4096))]


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
async def test_a_connection_over_the_limit_is_closed_and_the_others_are_served(limit: str) -> None:
    async with (
        FakeBroker() as broker,
        serving(broker, connections={limit: 2}) as server,
        connected(port_of(server)) as one,
        connected(port_of(server)) as two,
    ):
        await one.ask(HEARTBEAT)
        await two.ask(HEARTBEAT)
        async with connected(port_of(server)) as three:
            assert await three.rest() == b""
        await until(lambda: server.metrics.disconnects == {"too_many_connections": 1})
        assert (await one.ask(HEARTBEAT))[8:] == b"node 1"
        two.close()
        await until(lambda: len(server.connections) == 1)
        async with connected(port_of(server)) as three:
            assert (await three.ask(HEARTBEAT))[8:] == b"node 1"
