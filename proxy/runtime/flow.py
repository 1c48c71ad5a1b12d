"""Back-pressure of a connection: which of its two sides is not read, and until when."""

from __future__ import annotations

import asyncio

from kafka_sidecar.proxy.relay.memory_budget import Account
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.runtime.unsent import Unsent


class Flow:
    """As `relay.memory_budget.Owner` of the connection's account."""

    __slots__ = ("_account", "_client", "_is_slow", "_unsent", "broker")

    def __init__(self, account: Account, client: Side) -> None:
        self._account = account
        self._client = client
        self._unsent = Unsent(account)
        self._is_slow = False
        self.broker: Side | None = None  # once it is connected
        account.owner = self

    @property
    def client_progress(self) -> int:
        """Grows as the client reads a response that was written whole."""
        transport = self._client.transport
        return -transport.get_write_buffer_size() if transport is not None else 0

    def client_is_slow(self) -> None:
        # The client too is no longer read: its requests could make answers of our own without end.
        self._is_slow = True
        self.pause("the client reads slowly")
        self._unsent.hold(self._client.transport)

    def has_written(self) -> None:
        """All pieces of a response are written: the client may have been slow from the first one on."""
        if self._is_slow:
            self._unsent.hold(self._client.transport)

    def client_reads_again(self) -> None:
        self._is_slow = False
        self._unsent.release()
        self.resume("the client reads slowly")

    def pause_for_memory(self) -> None:
        self.pause("connections.max_buffered")

    def resume_after_memory(self) -> None:
        self.resume("connections.max_buffered")

    def pause_for_turn(self) -> None:
        self.pause("others have a turn")
        asyncio.get_running_loop().call_soon(self._resume_after_turn)

    def end(self) -> None:
        """A side has ended."""
        if self._client.transport is None:
            self._is_slow = False
        self._unsent.release()

    def _resume_after_turn(self) -> None:
        self._account.renew_turn()
        self.resume("others have a turn")

    def pause(self, reason: str) -> None:
        """Read of neither side."""
        self._client.pause(reason)
        if self.broker is not None:
            self.broker.pause(reason)

    def resume(self, reason: str) -> None:
        self._client.resume(reason)
        if self.broker is not None:
            self.broker.resume(reason)
