"""Responses that were buffered whole and are written: they are in memory until the client has read them."""

from __future__ import annotations

import asyncio

from kafka_sidecar.proxy.relay.memory_budget import Account

MIN_BYTES = 1 << 20  # more than relayed frames leave in a transport


class Unsent:
    """What waits in the transport of one client that reads slowly, on its connection's account."""

    __slots__ = ("_account", "_bytes")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._bytes = 0

    def hold(self, transport: asyncio.Transport | None) -> None:
        """The client reads slowly: all that is written so far waits. To be called again once more is written."""
        size = transport.get_write_buffer_size() if transport is not None else 0
        if size >= MIN_BYTES and size > self._bytes:
            self._account.add(size - self._bytes)
            self._bytes = size

    def release(self) -> None:
        """The client has read, or has gone."""
        if self._bytes:
            self._account.release(self._bytes)
            self._bytes = 0
