"""A client's login to the sidecar: until it has succeeded, what the client sends is for the gate alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.sasl.gate import Gate

REJECTED_PAUSE_S = 0.1  # before a rejection is sent, as Kafka's connection.failed.authentication.delay.ms
SUCCESS, FAILURE = "success", "failure"


class Connected(Protocol):
    """The client's connection."""

    @property
    def client(self) -> Side: ...

    def end(self, closing: Closing) -> None: ...


class ClientLogin:
    """That of one connection."""

    def __init__(self, connection: Connected, gate: Gate, limit_s: float, counts: Counter[str]) -> None:
        self._connection = connection
        self._gate = gate
        self._counts = counts  # by result
        self._limit = asyncio.get_running_loop().call_later(limit_s, self._too_late, limit_s)

    def feed(self, chunk: bytes) -> bytes:
        """What is left for the broker; nothing before the login."""
        gate = self._gate
        if gate.is_open:
            return chunk
        if gate.closing is not None:
            return b""
        out = gate.feed(chunk)
        if gate.closing is not None:
            self._reject(out, gate.closing)
            return b""
        self._write(out)
        if not gate.is_open:
            return b""
        self._limit.cancel()
        self._counts[SUCCESS] += 1
        return gate.rest

    @property
    def is_pending(self) -> bool:
        return not self._gate.is_open

    def _write(self, out: bytes) -> None:
        transport = self._connection.client.transport
        if out and transport is not None:
            transport.write(out)

    def _reject(self, out: bytes, closing: Closing) -> None:
        self._limit.cancel()
        self._counts[FAILURE] += 1
        pause_s = REJECTED_PAUSE_S if self._gate.is_rejected else 0.0
        asyncio.get_running_loop().call_later(pause_s, self._end, out, closing)

    def _end(self, out: bytes, closing: Closing) -> None:
        self._write(out)
        self._connection.end(closing)

    def _too_late(self, limit_s: float) -> None:
        if self.is_pending:
            self._connection.end(
                Closing("not_authenticated", f"the client did not log in within {limit_s:g} s (clients.sasl.timeout)")
            )
