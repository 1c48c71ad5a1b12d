"""A listener whose connections begin with a TLS handshake.

Limits apply before a handshake, which costs a thousand times as much as a connection; its failure is reported; and a
flood of handshakes leaves turns of the event loop to others.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kafka_sidecar.proxy.config.principal_rules import PrincipalRule, principal_of
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.introduction import diagnose
from kafka_sidecar.proxy.runtime.connection import CLIENT_CLOSED, Connection
from kafka_sidecar.proxy.runtime.listener import Accepted, Listener
from kafka_sidecar.proxy.runtime.tasks import Paced, spawn
from kafka_sidecar.proxy.security.tls.broker_access import CLOSE_S
from kafka_sidecar.proxy.security.tls.contexts import alert_of
from kafka_sidecar.proxy.security.tls.der import subject_of
from kafka_sidecar.proxy.security.tls.live_tls import LiveTls
from kafka_sidecar.proxy.telemetry.tls_failures import TIMEOUT, explain_to, reason_of

HEADER = 5  # of a record: type, version, length
HANDSHAKE, MAJOR_VERSION, CLIENT_HELLO = 0x16, 3, 1
MAX_RECORD_BYTES = 1 << 14


class NotTlsError(Exception):
    """The bytes begin no handshake; the text says what they look like."""


def bytes_needed(start: bytes) -> int:
    """How many bytes there must be before the handshake may begin: a ClientHello must have arrived whole.

    Its computation is what a handshake costs, so a client could otherwise have thousands of them begin at once.

    Raises:
        NotTlsError: the bytes are no ClientHello, or one that is divided among several records.
    """
    if start[:1] != bytes([HANDSHAKE]) or start[1:2] not in (b"", bytes([MAJOR_VERSION])):
        raise NotTlsError(f"the client does not speak TLS: {_likely(start)}")
    if len(start) < HEADER + 4:
        return HEADER + 4
    record = int.from_bytes(start[3:HEADER], "big")
    message = int.from_bytes(start[HEADER + 1 : HEADER + 4], "big")
    if start[HEADER] != CLIENT_HELLO or record > MAX_RECORD_BYTES or record < message + 4:
        raise NotTlsError("the client's first TLS record is not a whole ClientHello")
    return HEADER + record


def _likely(start: bytes) -> str:
    found = diagnose(start)
    return found.removeprefix("not Kafka: ") if found else "set its security.protocol to SSL or SASL_SSL"


log = logging.getLogger(__name__)

STARTED_PER_TURN = 8  # handshakes: each computes for about a millisecond
NOT_TLS = "not_tls"


# Says who a client is whose handshake is done, or ends its connection.
Name = Callable[[Any, asyncio.BaseTransport], None]


def principal_by(rules: tuple[PrincipalRule, ...]) -> Name:
    """Names a connection's principal, before the first request: the subject of its certificate, by the rules."""

    def name(connection: Connection, transport: asyncio.BaseTransport) -> None:
        try:
            subject = subject_of(transport.get_extra_info("ssl_object").getpeercert(True))
        except ValueError as error:
            connection.end(Closing("tls_handshake_failed", f"the client's certificate: {error}", "certificate"))
            return
        if subject is None:
            return
        connection.session.principal = principal = principal_of(subject, rules)
        if principal is None:
            detail = f"no rule of clients.tls.principal_rules is for {subject}: add one, or DEFAULT"
            connection.end(Closing("tls_handshake_failed", detail, "principal_rules"))

    def name_and_log(connection: Connection, transport: asyncio.BaseTransport) -> None:
        name(connection, transport)
        if log.isEnabledFor(logging.DEBUG):
            used = transport.get_extra_info("ssl_object")
            detail = f"{used.version()}, {used.cipher()[0]}" if used is not None else None
            log.debug(
                "TLS handshake done",
                extra={"session": connection.number, "principal": connection.session.principal, "detail": detail},
            )

    return name_and_log


class TlsListener(Listener):
    """Accepts connections at one socket until it is closed."""

    accepted_per_turn = 100  # each waits for its handshake

    def __init__(
        self,
        bound: socket.socket,
        connection: Callable[[], Accepted],
        tls: LiveTls,
        starts: Paced,
        limit_s: float,
        name: Name | None = None,
        holds_back: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(bound, connection, holds_back)
        self._tls = tls
        self._starts = starts  # of handshakes, over all listeners
        self._limit_s = limit_s  # of a handshake, from the connection on
        self._name = name

    def _begin(self, accepted: socket.socket, peer: tuple[object, ...]) -> None:
        connection = self._connection()
        connection.client_came(peer)
        if connection.has_ended:  # too many are open
            _give_up(accepted, connection)
        else:
            connection.handshake = spawn(self._shake_hands(accepted, connection), "TLS handshake")

    async def _shake_hands(self, accepted: socket.socket, connection: Accepted) -> None:
        """From the connection to the end of its handshake; after that it is served as any other."""
        began, closing, line = time.perf_counter(), CLIENT_CLOSED, accepted.dup()
        try:
            async with asyncio.timeout(self._limit_s):
                await self._hello(accepted)
                await self._turn()
                if self._name is not None:
                    connection.client.secured = partial(self._name, connection)
                await self._loop.connect_accepted_socket(
                    lambda: connection.client, accepted, ssl=self._tls.context, ssl_handshake_timeout=self._limit_s,
                    ssl_shutdown_timeout=CLOSE_S,
                )  # fmt: skip
            self._tls.stats.succeeded(time.perf_counter() - began)
        except EOFError:
            pass
        except NotTlsError as error:
            self._tls.stats.failures[NOT_TLS] += 1
            closing = Closing("tls_handshake_failed", str(error), NOT_TLS)
        except OSError as error:  # TLS's and TimeoutError among them
            reason = TIMEOUT if isinstance(error, TimeoutError) else reason_of(error)
            self._tls.stats.failures[reason] += 1
            closing = Closing("tls_handshake_failed", explain_to("client", error), reason)
            with suppress(OSError):
                line.send(alert_of(error))
        finally:
            connection.handshake = None
            line.close()
            if connection.client.transport is None:
                connection.end(closing)
                _give_up(accepted, connection)

    async def _hello(self, accepted: socket.socket) -> None:
        """Wait for the client's ClientHello, without reading it.

        Raises:
            EOFError: the client has closed without a byte, as probes of a port do.
            NotTlsError: it sends something else.
        """
        needed = 1
        while True:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, needed)
            await self._readable(accepted)
            start = accepted.recv(max(HEADER + 4, needed), socket.MSG_PEEK)
            if not start:
                raise EOFError
            if len(start) < needed:  # the client has closed in the middle of it
                raise NotTlsError("the client closed the connection in the handshake")
            before, needed = needed, bytes_needed(start)
            if needed <= before:
                break
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _readable(self, accepted: socket.socket) -> None:
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(accepted, _set, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(accepted)

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._starts.do(partial(_set, turn))
        await turn


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _give_up(accepted: socket.socket, connection: Accepted) -> None:
    """The end of a connection that never had a transport."""
    accepted.close()
    connection.client.connection_lost(None)
