"""Listeners without TLS: how many connections they accept in a turn of the event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest
from support.in_process import until

from kafka_sidecar.proxy.runtime.admission import bind_socket
from kafka_sidecar.proxy.runtime.listener import ACCEPTED_PER_TURN, Listener

both_loops = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])


class Counted(asyncio.Protocol):
    """Counts the connections that are accepted."""

    made = 0
    handshake = None
    has_ended = False

    @property
    def client(self) -> Any:
        Counted.made += 1
        return self

    def client_came(self, peer: tuple[object, ...] | None) -> None:
        raise NotImplementedError

    def end(self, closing: object) -> None:
        raise NotImplementedError


@both_loops
async def test_clients_that_come_together_are_accepted_some_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "made", 0)
    connection: Any = Counted
    listener = Listener(bind_socket("127.0.0.1", 0), connection)
    clients, seen = 3 * ACCEPTED_PER_TURN, [0]

    def look() -> None:
        seen.append(Counted.made)
        if Counted.made < clients:
            asyncio.get_running_loop().call_soon(look)

    with ExitStack() as stack:
        for _ in range(clients):
            stack.enter_context(socket.create_connection(listener.sockets[0].getsockname()))
        look()
        await until(lambda: Counted.made == clients)
    assert max(after - before for before, after in pairwise(seen)) <= ACCEPTED_PER_TURN
    listener.close()
    assert listener.sockets[0].fileno() == -1
