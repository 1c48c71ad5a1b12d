"""Drives the login of one client to the sidecar: until it has succeeded, what the client sends is for that alone.

Passwords, proofs and tokens are verified in a thread: a password takes milliseconds of CPU.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.runtime.verifications import Failures, Verifications
from kafka_sidecar.proxy.security.sasl.client_login import ClientLogin
from kafka_sidecar.proxy.security.sasl.reauthentication import Reauthentication

log = logging.getLogger(__name__)

BROKERS_UNKNOWN = "no broker has responded yet"  # reason to read no more of a client
SUCCESS, RENEWED, FAILURE = "success", "renewed", "failure"


class Connected(Protocol):
    """The client's connection."""

    @property
    def client(self) -> Side: ...

    @property
    def session(self) -> Session: ...

    @property
    def ip(self) -> str: ...

    def end(self, closing: Closing) -> None: ...


class LoginDriver:
    """Drives that of one connection."""

    def __init__(
        self,
        connection: Connected,
        login: ClientLogin,
        limit_s: float,
        counts: Counter[str],
        verifications: Verifications,
        failures: Failures,
        wait_for_brokers: Callable[[], Awaitable[None] | None] = lambda: None,
    ) -> None:
        """``wait_for_brokers``: what to wait for until the versions of the brokers are known; None: nothing."""
        self._connection = connection
        self._login = login
        self._counts = counts  # by result
        self._verifications = verifications  # over all connections
        self._failures = failures
        self._waits = False  # for a verification
        self._wait_for_brokers = wait_for_brokers
        self._held = b""  # what the client has sent before the brokers are known
        self._limit = asyncio.get_running_loop().call_later(limit_s, self._too_late, limit_s)

    def feed(self, chunk: bytes) -> bytes:
        """What is for the broker: nothing before the login; what came with it is received again after it."""
        login = self._login
        if login.is_open:
            return chunk
        if self._held:
            self._held += chunk
        elif login.closing is None:
            if (known := self._wait_for_brokers()) is not None:
                self._held = chunk
                self._connection.client.pause(BROKERS_UNKNOWN)
                spawn(self._feed_once(known), "wait for the brokers")
            else:
                self._go_on(login.feed(chunk))
        return b""

    async def _feed_once(self, known: Awaitable[None]) -> None:
        await known
        held, self._held = self._held, b""
        self._connection.client.resume(BROKERS_UNKNOWN)
        if self._is_wanted:
            self._go_on(self._login.feed(held))

    def _go_on(self, out: bytes) -> None:
        login = self._login
        if login.closing is not None:
            self._reject(out, login.closing)
            return
        self._write(out)
        if login.awaits_turn and not self._waits:
            self._waits = True
            spawn(self._verify(), "verify a login")
        elif login.is_open:
            self._limit.cancel()
            self._counts[SUCCESS] += 1
            if log.isEnabledFor(logging.DEBUG):
                session = self._connection.session
                log.debug(
                    "client logged in",
                    extra={"session": session.number, "principal": session.principal, "detail": login.mechanism},
                )
            if login.lifetime_s is not None:
                session = self._connection.session
                session.gates = (Reauthentication(login, self._reauthenticated), *session.gates)
                self._limit = self._begin_lifetime(login.lifetime_s)
            if login.rest:
                self._connection.client.data_received(login.rest)

    async def _verify(self) -> None:
        """Verify a password, proof or token, unless the client has gone or has been disconnected meanwhile."""
        login = self._login
        if login.needs_keys:
            await login.refresh_keys()
        outcome = await self._verifications.run(
            lambda: login.verify() if self._is_wanted else None, self._connection.ip, login.is_quick
        )
        self._waits = False
        if outcome is not None and self._is_wanted:
            self._go_on(login.take_turn(outcome))

    @property
    def _is_wanted(self) -> bool:
        transport = self._connection.client.transport
        return transport is not None and not transport.is_closing() and self._login.closing is None

    def _begin_lifetime(self, lifetime_s: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(lifetime_s, self._expired)

    def _reauthenticated(self) -> None:
        """The client has had an answer to a SASL request after its login."""
        login = self._login
        if login.closing is not None:
            self._reject(b"", login.closing)
        elif login.lifetime_s is not None and login.has_ended_login:
            self._limit.cancel()
            self._counts[RENEWED] += 1
            self._limit = self._begin_lifetime(login.lifetime_s)

    def _expired(self) -> None:
        self._connection.end(
            Closing("not_authenticated", "the client's token has expired, and it did not log in again")
        )

    def stop(self) -> None:
        """The connection has ended."""
        self._limit.cancel()

    @property
    def is_pending(self) -> bool:
        return not self._login.is_open

    def _write(self, out: bytes) -> None:
        transport = self._connection.client.transport
        if out and transport is not None:
            transport.write(out)

    def _reject(self, out: bytes, closing: Closing) -> None:
        self._limit.cancel()
        self._counts[FAILURE] += 1
        pause_s = self._failures.pause_s(self._connection.ip) if self._login.is_rejected else 0.0
        asyncio.get_running_loop().call_later(pause_s, self._end, out, closing)

    def _end(self, out: bytes, closing: Closing) -> None:
        self._write(out)
        self._connection.end(closing)

    def _too_late(self, limit_s: float) -> None:
        if self.is_pending:
            self._connection.end(
                Closing("not_authenticated", f"the client did not log in within {limit_s:g} s (clients.sasl.timeout)")
            )
