"""Back-pressure of a connection: which of its two sides is not read, and until when."""

from __future__ import annotations

import asyncio

from kafka_sidecar.proxy.relay.memory_budget import Account
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.runtime.unsent import Unsent


class Flow:
    """As `relay.memory_budget.Owner` of the connection's account."""

    __slots__ = ("_account", "_client", "_unsent", "broker")

    def __init__(self, account: Account, client: Side) -> None:
        self._account = account
        self._client = client
        self._unsent = Unsent(account)
        self.broker: Side | None = None  # once it is connected
        account.owner = self

    def client_is_slow(self) -> None:
        # The client too is no longer read: its requests could make answers of our own without end.
        self._pause("the client reads slowly")
        self._unsent.hold(self._client.transport)

    def client_reads_again(self) -> None:
        self._unsent.release()
        self._resume("the client reads slowly")

    def pause_for_memory(self) -> None:
        self._pause("connections.max_buffered")

    def resume_after_memory(self) -> None:
        self._resume("connections.max_buffered")

    def pause_for_turn(self) -> None:
        self._pause("others have a turn")
        asyncio.get_running_loop().call_soon(self._resume_after_turn)

    def end(self) -> None:
        """A side has ended: nothing waits for the client then."""
        self._unsent.release()

    def _resume_after_turn(self) -> None:
        self._account.renew_turn()
        self._resume("others have a turn")

    def _pause(self, reason: str) -> None:
        self._client.pause(reason)
        if self.broker is not None:
            self.broker.pause(reason)

    def _resume(self, reason: str) -> None:
        self._client.resume(reason)
        if self.broker is not None:
            self.broker.resume(reason)
