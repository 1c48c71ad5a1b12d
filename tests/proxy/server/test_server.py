"""The running sidecar with brokers that join, leave, hang and move."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from support import oracle
from support.dialogue import produce, request
from support.fake_broker import FakeBroker, after, fixed, named, stall
from support.in_process import connected, port_of, serving, until, until_refused

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.nodes.addresses import Addresses
from kafka_sidecar.proxy.server import server as server_module

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 8)
QUICK: dict[str, Any] = {
    "cluster": {"refresh": "20ms", "forget_after": "100ms"}, "connections": {"broker_wait": "20ms"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FIRST_RETRY_S", 0.01)


def addresses_in(frame: bytes) -> dict[int, tuple[str, int]]:
    """Node -> address in a Metadata response."""
    return {node.node_id: (node.host, node.port) for node in oracle.read_response(3, 12, frame)[1].brokers}


async def response_of(port: int) -> bytes:
    async with connected(port) as client:
        return (await client.ask(HEARTBEAT))[8:]


@contextmanager
def hanging() -> Iterator[str]:
    """An address that neither accepts nor refuses connections: its backlog is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield "{}:{}".format(*listener.getsockname())


def test_a_cluster_that_does_not_answer_has_a_line_each_minute_and_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = server_module._MetadataLines()
    for at in range(0, 200, 5):
        lines.failed("refused" if at < 100 else "unknown host", float(at))
    found = [(one.levelname, vars(one)["detail"], vars(one)["duration_s"]) for one in caplog.records]
    assert found == [
        ("WARNING", "refused", 0), ("ERROR", "refused", 60), ("ERROR", "unknown host", 100),
        ("ERROR", "unknown host", 160),
    ]  # fmt: skip


async def test_requests_of_the_sidecar_alone_count_what_fails_with_no_client(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*closed.getsockname())
        async with serving(address, **QUICK) as server:
            await until(lambda: sum(server.metrics.connect_failures.values()) >= 3)
            assert not server.metrics.connections
    assert sum(one.getMessage() == "metadata request failed" for one in caplog.records) == 1


async def test_each_node_has_its_own_port_and_the_bootstrap_port_connects_to_a_live_one() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = two.cluster = [one, two]
        async with serving(one) as server:
            await until(lambda: len(server.addresses.nodes) == 2)
            assert await response_of(port_of(server)) == b"node 1"
            assert await response_of(port_of(server, 1)) == b"node 1"
            assert await response_of(port_of(server, 2)) == b"node 2"


async def test_a_client_gets_the_sidecars_ports_and_can_connect_at_once() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = [one]
        async with serving(one) as server, connected(port_of(server)) as client:
            await until(lambda: len(server.addresses.nodes) == 1)
            one.cluster = [one, two]
            addresses = addresses_in(await client.ask(METADATA))
            assert addresses == {1: ("127.0.0.1", port_of(server, 1)), 2: ("127.0.0.1", port_of(server, 2))}
            assert await response_of(addresses[2][1]) == b"node 2"


async def test_a_broker_that_is_down_at_the_start_is_used_once_it_is_up() -> None:
    broker = await FakeBroker(1).start()
    await broker.stop()
    async with serving(broker, **QUICK) as server:
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["broker_unreachable"])
        assert not server.metrics.cluster_reached
        async with broker:
            assert await response_of(port_of(server)) == b"node 1"
            await until(lambda: server.addresses.nodes)
            assert await response_of(port_of(server, 1)) == b"node 1"


async def test_a_stopped_broker_closes_its_sessions_and_is_used_again_after_its_restart() -> None:
    async with FakeBroker(1) as broker, serving(broker, **QUICK) as server:
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server, 1)) as client:
            await client.ask(HEARTBEAT)
            await broker.stop()
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["broker_closed"] == 1)
        async with connected(port_of(server, 1)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await broker.start()
        assert await response_of(port_of(server, 1)) == b"node 1"


async def test_an_unreachable_bootstrap_server_is_tried_last() -> None:
    dead = await FakeBroker(1).start()
    await dead.stop()
    async with FakeBroker(2) as alive, serving(dead, alive) as server:
        for _ in range(6):
            assert await response_of(port_of(server)) == b"node 2"
        assert server.metrics.connect_failures["broker_unreachable"] <= 1


async def test_a_hanging_bootstrap_server_costs_one_connect_timeout_and_no_client() -> None:
    with hanging() as dead:
        async with FakeBroker(2) as alive, serving(dead, alive, connections={"connect_timeout": "500ms"}) as server:
            for _ in range(6):
                assert await response_of(port_of(server)) == b"node 2"
            assert server.metrics.connect_failures["connect_timeout"] <= 1


async def test_clients_of_a_hanging_node_are_closed_after_the_connect_timeout() -> None:
    with hanging() as dead:
        async with FakeBroker(1) as one, serving(one, connections={"connect_timeout": "100ms"}) as server:
            two = FakeBroker(2)
            two.port = int(dead.rpartition(":")[2])
            one.cluster = [one, two]
            async with connected(port_of(server)) as client:
                await client.ask(METADATA)
            async with connected(port_of(server, 2)) as client:
                client.send(HEARTBEAT)
                assert await client.rest() == b""
            await until(lambda: server.metrics.disconnects["connect_timeout"] == 1)


async def test_known_brokers_replace_unreachable_bootstrap_servers() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = two.cluster = [one, two]
        async with serving(one) as server:
            await until(lambda: len(server.addresses.nodes) == 2)
            await one.stop()
            assert await response_of(port_of(server)) == b"node 2"


async def test_a_broker_with_an_invalid_host_is_unreachable() -> None:
    async with FakeBroker(1) as one, serving(one) as server:
        two = FakeBroker(2)
        two.host = "empty..label"
        one.cluster = [one, two]
        async with connected(port_of(server)) as client:
            assert addresses_in(await client.ask(METADATA))[2] == ("127.0.0.1", port_of(server, 2))
        async with connected(port_of(server, 2)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: server.metrics.disconnects["broker_unreachable"] == 1)


async def test_a_client_with_a_nodes_port_reaches_the_node_right_after_a_restart() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = two.cluster = [one, two]
        async with serving(one) as before:
            await until(lambda: len(before.addresses.nodes) == 2)
            port = port_of(before, 2)
        async with serving(one, listen=port_of(before)) as after_restart:
            await until(lambda: after_restart.addresses.nodes)
            assert await response_of(port) == b"node 2"
            assert not [asked for asked in one.requests if b"app" in asked.frame]


async def test_brokers_of_the_state_file_are_reachable_if_metadata_requests_are_not_allowed(tmp_path: Any) -> None:
    nodes = {"state_file": tmp_path / "state.json"}
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = [one, two]
        async with serving(one, nodes=nodes) as before, connected(port_of(before)) as client:
            await client.ask(METADATA)
        one.answers[ApiKey.METADATA] = stall
        async with serving(one, nodes=nodes, listen=port_of(before)) as after_restart:
            assert await response_of(port_of(after_restart, 2)) == b"node 2"


async def test_a_broker_that_left_keeps_its_sessions_and_gets_the_same_port_again() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = [one, two]
        async with serving(one, **QUICK) as server:
            await until(lambda: len(server.addresses.nodes) == 2)
            async with connected(port_of(server, 2)) as client:
                await client.ask(HEARTBEAT)
                one.cluster = [one]
                await until(lambda: len(server.addresses.nodes) == 1)
                assert server.metrics.broker_listeners == 1
                await until_refused(port_of(server, 2))
                assert (await client.ask(HEARTBEAT))[8:] == b"node 2"
            one.cluster = [one, two]
            await until(lambda: len(server.addresses.nodes) == 2)
            assert await response_of(port_of(server, 2)) == b"node 2"


async def test_a_broker_that_moved_keeps_its_local_port() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as before, FakeBroker(2) as moved:
        moved.answers[ApiKey.HEARTBEAT] = fixed(oracle.framed(bytes(4) + b"moved"))
        one.cluster = [one, before]
        async with serving(one, **QUICK) as server:
            await until(lambda: len(server.addresses.nodes) == 2)
            one.cluster = [one, moved]
            await until(lambda: server.addresses.nodes[2].port == moved.port)
            assert await response_of(port_of(server, 2)) == b"moved"


async def test_a_node_port_in_use_is_replaced_by_another() -> None:
    async with FakeBroker(1) as one, serving(one) as server:
        await until(lambda: server.addresses.nodes)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # a connection of another program has it already
                other.bind(("127.0.0.1", port_of(server, 2)))
                other.listen()
            async with FakeBroker(2) as two, connected(port_of(server)) as client:
                one.cluster = [one, two]
                port = addresses_in(await client.ask(METADATA))[2][1]
                assert port != port_of(server, 2)
                assert await response_of(port) == b"node 2"


async def test_a_listen_port_in_use_is_an_error_that_names_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigError, match=r"listen: 127.0.0.1:\d+ cannot be bound: Address already in use; choose"):
            async with serving("127.0.0.1:1", listen=other.getsockname()[1], nodes={"first_port": 20000}):
                raise AssertionError("served")


async def test_a_cluster_that_requires_sasl_counts_as_reached_without_a_response() -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.METADATA] = stall
        async with serving(broker) as server:
            await until(lambda: server.metrics.cluster_reached)


async def test_responses_are_in_request_order_though_the_broker_is_slow() -> None:
    async with FakeBroker(1) as broker, serving(broker) as server:
        broker.answers[ApiKey.HEARTBEAT] = after(0.02, named)
        async with connected(port_of(server)) as client:
            client.send(
                HEARTBEAT + request(ApiKey.API_VERSIONS, 9, 1, b"x") + produce(9, 2, 0) + produce(9, 3, 1) + HEARTBEAT
            )
            assert [(await client.frame())[7] for _ in range(4)] == [7, 1, 3, 7]


async def test_an_error_in_a_metadata_refresh_does_not_end_the_refreshing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeBroker(1) as broker:
        broken = iter([KeyError("oops")])

        def update(self: Any, present: Any) -> None:
            for error in broken:
                raise error
            return original(self, present)

        original = Addresses.update
        monkeypatch.setattr(Addresses, "update", update)
        async with serving(broker, **QUICK) as server:
            await until(lambda: server.addresses.nodes)
