"""A sidecar that is its own bootstrap server: recognised at the start, and while it runs."""

from __future__ import annotations

import logging
import re
import socket
from typing import Any

import pytest
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving, until

from kafka_sidecar import __version__
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.nodes import metadata_client
from kafka_sidecar.proxy.nodes.metadata_client import OwnConnections, listener_among
from kafka_sidecar.proxy.server import server as server_module

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
OWN_PORTS = range(19092, 19193)


def test_the_greeting_is_an_api_versions_request_with_the_sidecars_name() -> None:
    number, greeting = OwnConnections().greeting()
    token = re.search(rf"{re.escape(__version__)}-[0-9a-f]{{16}}", greeting.decode("latin-1"))
    assert token is not None
    software = {"client_software_name": "kafka-sidecar", "client_software_version": token[0]}
    expected = oracle.request(ApiKey.API_VERSIONS, 3, **software)
    assert greeting == oracle.request_frame(expected, number, client_id="kafka-sidecar")


def test_a_connection_that_comes_back_is_recognised_by_its_own_process_only(caplog: pytest.LogCaptureFixture) -> None:
    own, other = OwnConnections(), OwnConnections()
    (first, _), (second, greeting) = own.greeting(), own.greeting()
    assert not other.recognise(greeting)
    assert not own.recognise(HEARTBEAT)
    assert own.recognise(greeting)
    assert not own.came_back(first, ("a", 1))
    assert own.came_back(second, ("b", 2))
    assert own.addresses == {("b", 2)}
    own.recognise(greeting)
    assert own.came_back(second, ("b", 2))
    (line,) = [record for record in caplog.records if record.message == "sidecar connects to itself"]
    assert (line.levelno, vars(line)["address"]) == (logging.ERROR, "b:2")


@pytest.mark.parametrize(
    ("server", "bind_host", "is_own"),
    [
        (("127.0.0.1", 19092), "127.0.0.1", True),
        (("localhost", 19092), "127.0.0.1", True),
        (("127.0.0.1", 19192), "127.0.0.1", True),
        (("127.0.0.1", 19193), "127.0.0.1", False),
        (("127.0.0.1", 9092), "127.0.0.1", False),
        (("127.0.0.2", 19092), "127.0.0.1", False),
        (("127.0.0.2", 19092), "0.0.0.0", True),
        (("192.0.2.1", 19092), "0.0.0.0", False),
        (("no such host", 19092), "127.0.0.1", False),
    ],
)
async def test_what_resolves_to_an_own_listener_is_found(server: tuple[str, int], bind_host: str, is_own: bool) -> None:
    expected = server if is_own else None
    assert await listener_among([("192.0.2.9", 19092), server], bind_host, OWN_PORTS) == expected


async def test_the_start_is_refused_with_one_line_where_a_bootstrap_server_is_the_sidecar() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConfigError) as refused:
        async with serving(f"localhost:{port}", listen=port, nodes={"first_port": 20000, "ports": 10}):
            raise AssertionError("served")
    assert str(refused.value) == (
        f"bootstrap_servers: localhost:{port} is this sidecar itself: it listens at port {port} and, for brokers, "
        "20000 to 20009; name brokers, or choose another listen"
    )


async def no_listener_among(*_: object) -> None:
    """As where a load balancer leads back to the sidecar."""


async def test_a_running_sidecar_that_leads_to_itself_is_recognised_and_recovers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "listener_among", no_listener_among)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    itself = ("127.0.0.1", port)
    settings: dict[str, Any] = {"nodes": {"first_port": 20000, "ports": 10}, "connections": {"broker_wait": "10ms"}}
    async with serving(f"127.0.0.1:{port}", listen=port, **settings) as server:
        await until(lambda: itself in server.own.addresses)
        assert not server.metrics.cluster_reached
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: not server.connections)
        assert set(server.metrics.disconnects) <= {"connects_to_itself", "client_closed"}
        assert sum(server.metrics.connections.values()) <= 6
        assert caplog.messages.count("sidecar connects to itself") == 1


async def test_a_client_whose_only_servers_lead_back_is_closed_with_that_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "listener_among", no_listener_among)
    async with FakeBroker() as broker, serving(broker, connections={"broker_wait": "10ms"}) as server:
        await until(lambda: server.addresses.nodes)
        server.own.addresses.add((broker.host, broker.port))
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects == {"connects_to_itself": 1})


async def test_an_address_that_leads_to_a_broker_again_is_used_again() -> None:
    async with FakeBroker() as broker, serving(broker, cluster={"refresh": "20ms"}) as server:
        server.own.addresses.add((broker.host, broker.port))
        await until(lambda: not server.own.addresses)


def test_the_remedy_names_the_setting() -> None:
    assert "bootstrap_servers" in metadata_client.REMEDY
