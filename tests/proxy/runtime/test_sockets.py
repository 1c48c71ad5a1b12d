"""Listening sockets, alone and shared."""

from __future__ import annotations

import socket

import pytest
from harness.ports import free_ports

from kafka_sidecar.proxy.runtime.sockets import bind_socket, check_free


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
