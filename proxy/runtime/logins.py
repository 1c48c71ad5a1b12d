"""Logins on a client's connection: its own to the sidecar, before which all that it sends is for that alone, and the
sidecar's to the broker, which is renewed before it ends (KIP-368).

Passwords, proofs and tokens are verified in threads, so that who guesses passwords keeps neither the loop nor others. A
password takes milliseconds of CPU: they are verified one after the other, and addresses take turns. Of one address
the newest is the first: an honest client then does not wait for all that guess beside it, which begin again only once
they are rejected. All else takes microseconds, and does not wait for passwords. Addresses with many rejected logins
wait longer for each rejection.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins
from kafka_sidecar.proxy.security.sasl.client_login import ClientLogin, Reauthentication
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Relogin

T = TypeVar("T")
Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]

REJECTED_PAUSE_S = 0.1  # before a rejection is sent, as Kafka's connection.failed.authentication.delay.ms
MAX_PAUSE_S = 5.0
FAILURES_A_STEP = 20  # of an address, after which its pause is twice as long
HALF_LIFE_S = 10.0  # after which half of its failures are forgotten
MAX_ADDRESSES = 1000  # whose failures are counted


class Verifications:
    """Those of one process."""

    def __init__(self) -> None:
        self._passwords = ThreadPoolExecutor(1, thread_name_prefix="passwords")  # they start with the first login
        self._others = ThreadPoolExecutor(1, thread_name_prefix="logins")
        self._waiting: dict[str, list[Waiting]] = {}  # for a password's turn, by address; the next address is the first
        self._is_busy = False

    async def run(self, verify: Callable[[], T], address: str = "", is_quick: bool = False) -> T:
        """What ``verify`` returns or raises. ``is_quick``: it computes nothing from a password."""
        loop = asyncio.get_running_loop()
        if is_quick:
            return await loop.run_in_executor(self._others, verify)
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.setdefault(address, []).append((verify, future))
        self._begin_next()
        return await future

    def stop(self) -> None:
        """Verify nothing that waits."""
        for waiting in self._waiting.values():
            for _, future in waiting:
                future.cancel()
        self._waiting.clear()
        for threads in (self._passwords, self._others):
            threads.shutdown(wait=False, cancel_futures=True)

    def _begin_next(self) -> None:
        while not self._is_busy and self._waiting:
            address = next(iter(self._waiting))
            waiting = self._waiting.pop(address)
            verify, future = waiting.pop()
            if waiting:
                self._waiting[address] = waiting  # after the others
            if not future.done():
                self._is_busy = True
                running = asyncio.wrap_future(self._passwords.submit(verify))
                running.add_done_callback(partial(self._ended, future))

    def _ended(self, future: asyncio.Future[Any], running: asyncio.Future[Any]) -> None:
        self._is_busy = False
        if not future.done():
            if running.cancelled():
                future.cancel()
            elif (error := running.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(running.result())
        self._begin_next()


class Failures:
    """The rejected logins of addresses, and how long a client waits for the next rejection."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts = Bounded[str, tuple[float, float]](
            MAX_ADDRESSES
        )  # by address, and when that was so; the latest is the last

    def pause_s(self, address: str) -> float:
        """One more login of this address is rejected: when to say so."""
        now = self._clock()
        count, at = self._counts.pop(address, (0.0, now))
        count = count * 0.5 ** ((now - at) / HALF_LIFE_S) + 1
        self._counts[address] = count, now
        return float(min(MAX_PAUSE_S, REJECTED_PAUSE_S * 2 ** min(count // FAILURES_A_STEP, 10)))


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


# Of a lifetime, as Kafka's clients: not all of them at once, and in time whatever clocks and networks do.
EARLIEST, LATEST = 0.85, 0.95


class Renewal:
    """The login of one connection."""

    def __init__(self, session: Session, logins: BrokerLogins, lifetime_s: float) -> None:
        self._session = session
        self._logins = logins
        self._due: Relogin | None = None
        self._timer = self._start(lifetime_s)

    def stop(self) -> None:
        """The connection has ended."""
        self._timer.cancel()

    def _start(self, lifetime_s: float) -> asyncio.TimerHandle:
        after_s = lifetime_s * random.uniform(EARLIEST, LATEST)  # noqa: S311 - not for secrets
        return asyncio.get_running_loop().call_later(after_s, self._is_due)

    def _is_due(self) -> None:
        """Hold the client's next request until the login is renewed."""
        self._due = Relogin(self._logins.credentials, self._renewed, self._failed)
        self._session.gates = (*self._session.gates, self._due)  # after that of the client's login

    def _renewed(self, lifetime_s: float) -> None:
        self._session.gates = tuple(gate for gate in self._session.gates if gate is not self._due)
        self._logins.succeeded("renewed")
        if lifetime_s:
            self._timer = self._start(lifetime_s)

    def _failed(self, error: LoginError) -> None:
        self._logins.failed(error, None)
