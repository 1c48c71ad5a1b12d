"""How the sidecar connects to brokers: every connection to one, a client's or its own, is opened with this."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins
from kafka_sidecar.proxy.security.sasl.conversation import LoginError
from kafka_sidecar.proxy.security.tls.live_tls import LiveTls
from kafka_sidecar.proxy.telemetry.tls_failures import explain_to, reason_of

OWN_CLIENT_ID = "kafka-sidecar"  # of the sidecar's own requests
CLOSE_S = 10.0  # for the end of TLS, with all that was written before it, to reach a peer

P = TypeVar("P", bound=asyncio.Protocol)


class HandshakeError(OSError):
    """TLS with a broker failed; the text says why, with the remedy."""


def cause_of(error: BaseException) -> str:
    """Why a broker could not be used: a label value of kafka_sidecar_broker_connect_failures_total."""
    cause = "connect_timeout" if isinstance(error, TimeoutError) else "broker_unreachable"
    if isinstance(error, LoginError):
        cause = "authentication_failed"
    if isinstance(error, HandshakeError):
        cause = "broker_tls_failed"
    return cause


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """The local address, if one is configured, TLS, if brokers require it, and the sidecar's own logins."""

    source_address: str | None = None
    tls: LiveTls | None = None
    logins: BrokerLogins | None = None

    @property
    def context(self) -> ssl.SSLContext | None:
        """For a handshake that begins now."""
        return self.tls.context if self.tls is not None else None

    @property
    def aiokafka_settings(self) -> dict[str, Any]:
        """For aiokafka's clients, which take the context of each connection from `context`."""
        protocol = "SSL" if self.tls is not None else "PLAINTEXT"
        if self.logins is None:
            return {"security_protocol": protocol, "ssl_context": self.context} if self.tls is not None else {}
        # Its own login is replaced; it only has to know that there is one.
        unused = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "", "sasl_plain_password": ""}
        return {"security_protocol": f"SASL_{protocol}", "ssl_context": self.context, **unused}

    async def connect(self, factory: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        """A connection to a broker, its handshake and the sidecar's login done.

        Raises what `_connect` does, and LoginError: the broker does not let the sidecar in.
        """
        if self.logins is None:
            return await self._connect(factory, host, port)
        transport, login = await self._connect(self.logins.protocol, host, port)
        try:
            lifetime_s = await self.logins.perform(login.request, f"{host}:{port}")
            protocol = factory()
            self.logins.hand_over(login, lifetime_s, protocol)
        except BaseException:
            transport.abort()
            raise
        return transport, protocol

    async def _connect(self, factory: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        """A connection to a broker, its handshake done.

        The broker's own host is what its certificate must name, and what it is asked for (SNI).

        Raises:
            HandshakeError: TLS failed.
            OSError: the broker cannot be reached.
            ValueError, OverflowError: its host or port is invalid.
        """
        loop, source = asyncio.get_running_loop(), (self.source_address, 0) if self.source_address else None
        if self.tls is None:
            return await loop.create_connection(factory, host, port, local_addr=source)
        began = time.perf_counter()
        try:
            connected = await loop.create_connection(
                factory, host, port, local_addr=source, ssl=self.tls.context, server_hostname=host,
                ssl_shutdown_timeout=CLOSE_S,
            )  # fmt: skip
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            self.tls.stats.failures[reason_of(error)] += 1
            raise HandshakeError(explain_to("broker", error)) from error
        self.tls.stats.succeeded(time.perf_counter() - began)
        return connected

    async def open(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The same as streams. Raises as `connect` does."""
        reader = asyncio.StreamReader()
        transport, protocol = await self.connect(lambda: asyncio.StreamReaderProtocol(reader), host, port)
        return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
