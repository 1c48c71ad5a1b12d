"""A listener that accepts its connections itself, some of them in a turn of the event loop.

The loop would accept as long as clients come, and do in one turn what each of them begins with: where hundreds connect
again and again, that is a tenth of a second.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Protocol

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.tasks import spawn

log = logging.getLogger(__name__)

ACCEPTED_PER_TURN = 20
PAUSE_S = 1.0  # when no more files can be opened


class Accepted(Protocol):
    """What serves an accepted socket; with TLS from before its handshake on."""

    handshake: asyncio.Task[None] | None  # of TLS, while it lasts; cancelled where the connection has to end

    @property
    def client(self) -> Any:
        """The `asyncio.Protocol` of the socket, with its `transport`; `secured` is called once TLS is established."""

    @property
    def has_ended(self) -> bool: ...

    def client_came(self, peer: tuple[object, ...] | None) -> None: ...

    def end(self, closing: Closing) -> None: ...


class Listener:
    """Accepts connections at one socket until it is closed."""

    accepted_per_turn = ACCEPTED_PER_TURN

    def __init__(
        self, bound: socket.socket, connection: Callable[[], Accepted], holds_back: Callable[[], bool] = lambda: False
    ) -> None:
        """``holds_back``: whether to accept none in this turn of the loop; they stay in the socket's queue."""
        self.sockets = (bound,)
        self._bound = bound
        self._connection = connection
        self._holds_back = holds_back
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self._loop.add_reader(bound, self._clients_wait)

    def close(self) -> None:
        """Accept no more; what has begun goes on."""
        if self._bound.fileno() >= 0:
            self._loop.remove_reader(self._bound)
            self._bound.close()

    def _clients_wait(self) -> None:
        """Accept in the next turn, once the ends that this poll of the sockets has found are known."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._accept)

    def _accept(self) -> None:
        self._is_due = False
        if self._holds_back() or self._bound.fileno() < 0:
            return
        for _ in range(self.accepted_per_turn):
            try:
                accepted, peer = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("connections not accepted", extra={"detail": error.strerror or str(error)})
                self._loop.remove_reader(self._bound)
                self._loop.call_later(PAUSE_S, self._accept_again)
                return
            accepted.setblocking(False)
            self._begin(accepted, peer)

    def _accept_again(self) -> None:
        if self._bound.fileno() >= 0:
            self._loop.add_reader(self._bound, self._clients_wait)

    def _begin(self, accepted: socket.socket, peer: tuple[object, ...]) -> None:
        spawn(self._serve(accepted), "serve a connection")

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._connection().client, accepted)
        except OSError:  # the client has gone
            accepted.close()
