"""How many connections are accepted: in all, from one address, and as open files allow."""

from __future__ import annotations

import logging
import resource
import socket
from pathlib import Path
from typing import Any

import pytest
from harness.ports import free_ports
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime import admission
from kafka_sidecar.proxy.runtime.admission import (
    Admission,
    bind_socket,
    check_free,
    connections_that_fit,
    default_max_buffered,
    warn_if_too_large,
)

MIB = 1 << 20
V2, V1 = "memory.max", "memory/memory.limit_in_bytes"


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


def cgroup(folder: Path, name: str, text: str) -> Path:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("name", [V2, V1])
@pytest.mark.parametrize(
    ("limit_mib", "processes", "buffered_mib"),
    [(256, 1, 96), (1024, 1, 256), (1024, 5, 256), (512, 3, 160), (64, 1, 1)],
)
def test_half_of_what_the_limit_leaves_is_buffered(
    name: str, limit_mib: int, processes: int, buffered_mib: int, tmp_path: Path
) -> None:
    root = cgroup(tmp_path, name, f"{limit_mib * MIB}\n")
    assert default_max_buffered(processes, root) == buffered_mib * MIB


@pytest.mark.parametrize("text", ["max\n", f"{0x7FFFFFFFFFFFF000}\n"])
def test_without_a_limit_it_is_256_mib(text: str, tmp_path: Path) -> None:
    assert default_max_buffered(1, tmp_path) == 256 * MIB
    assert default_max_buffered(1, cgroup(tmp_path, V2, text)) == 256 * MIB


@pytest.mark.parametrize(("configured", "is_warned"), [(None, False), (192 * MIB, False), (193 * MIB, True)])
def test_a_configured_value_above_the_limit_is_a_warning(
    configured: int | None, is_warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_too_large(configured, 1, cgroup(tmp_path, V2, f"{256 * MIB}"))
    details = [vars(record)["detail"] for record in caplog.records if record.levelno == logging.WARNING]
    expected = "193 MiB, and the container's limit leaves 192 MiB: lower it, or raise the limit"
    assert details == ([expected] if is_warned else [])


def test_a_port_accepts_connections_as_soon_as_it_is_bound() -> None:
    (port,) = free_ports(1)
    with bind_socket("127.0.0.1", port), socket.create_connection(("127.0.0.1", port), 5):
        pass


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True)])
def test_a_port_has_one_listener_unless_all_share_it(first: bool, second: bool) -> None:
    (port,) = free_ports(1)
    with bind_socket("127.0.0.1", port, first), pytest.raises(OSError, match="in use"):
        bind_socket("127.0.0.1", port, second)


@pytest.mark.parametrize("shared", [False, True])
def test_a_port_is_free_if_no_program_listens_there_even_a_shared_one(shared: bool) -> None:
    (port,) = free_ports(1)
    check_free("127.0.0.1", port)
    with bind_socket("127.0.0.1", port, shared), pytest.raises(OSError, match="in use"):
        check_free("127.0.0.1", port)


def test_new_connections_are_spread_over_those_who_share_a_port() -> None:
    (port,) = free_ports(1)
    with bind_socket("127.0.0.1", port, True) as one, bind_socket("127.0.0.1", port, True) as other:
        clients = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(64)]
        accepted = [accept_all(listener) for listener in (one, other)]
        for client in clients:
            client.close()
    assert sum(accepted) == 64
    assert min(accepted) > 0


def accept_all(listener: socket.socket) -> int:
    """How many connections have come."""
    number = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return number
        number += 1


@pytest.mark.parametrize(("before", "after"), [((-1, -1), (1, 1)), ((0, 0), (0, 0)), ((0, 4096), (1, 1))])
def test_a_crash_leaves_no_core_dump(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int]
) -> None:
    limits = {resource.RLIMIT_CORE: before}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    admission.forbid_core_dumps()
    assert list(limits.values()) == [after]
