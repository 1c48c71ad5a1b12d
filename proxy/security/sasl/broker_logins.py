"""The sidecar's logins at brokers: which user for which client, with which credentials, performed, counted, logged."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast, runtime_checkable

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.sasl import BY_PASSWORD, BrokerSasl, SecretError
from kafka_sidecar.proxy.relay.introduction import diagnose
from kafka_sidecar.proxy.security.sasl import scram
from kafka_sidecar.proxy.security.sasl.conversation import Credentials, LoginError, Tokens, log_in, plain
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

USER = ("username", "password")
SHOWN = ("username", "password_file", "jaas_config_file", "token_endpoint", "client_id", "token_file", "token_provider")


class Password:
    """User and password."""

    def __init__(self, sasl: BrokerSasl) -> None:
        """Raises SecretError."""
        self.mechanism = str(sasl.mechanism)
        self.remedy = _remedy(sasl)
        self._sasl = sasl
        sasl.options(USER)

    async def tokens(self) -> Tokens:
        try:
            options = self._sasl.options(USER)
        except SecretError as error:
            raise LoginError(str(error)) from None
        if self.mechanism == "PLAIN":
            return plain(options["username"], options["password"])
        return scram.client(self.mechanism, options["username"], options["password"], secrets.token_hex(16))


def open_credentials(sasl: BrokerSasl) -> Credentials | None:
    """The credentials of a section; None where it is empty.

    Raises:
        ValueError: a secret cannot be read, or a plug-in not be opened; one line that begins with the setting.
    """
    if sasl.mechanism is None:
        return None
    if sasl.mechanism in BY_PASSWORD:
        return Password(sasl)
    from kafka_sidecar.proxy.security.sasl.tokens import Bearer  # only then: it imports plug-ins and HTTP

    return Bearer(sasl, _remedy(sasl))


def _remedy(sasl: BrokerSasl) -> str:
    section = ".".join(map(str, sasl.at))
    shown = ", ".join(f"{name} {value}" for name in SHOWN if (value := getattr(sasl, name)) is not None)
    return f"correct {section} ({shown or 'its environment variables'}), or what the brokers accept"


log = logging.getLogger(__name__)

LOG_EVERY_S = 10.0
MAX_RESPONSE_BYTES = 64 << 10

# Sends a request's frame; the response's, with its length.
Request = Callable[[bytes], Awaitable[bytes]]


async def perform_login(credentials: Credentials, request: Request) -> float:
    """Log in; the lifetime of the session in seconds, 0: it has no limit. Raises LoginError, OSError, EOFError."""
    steps = log_in(credentials.mechanism, await credentials.tokens())
    try:
        frame = next(steps)
        while True:
            frame = steps.send(await request(frame))
    except StopIteration as done:
        lifetime_s: float = done.value
        return lifetime_s
    except CodecError as error:
        raise LoginError(f"the broker does not speak Kafka: {error}") from error
    except EOFError as error:
        raise ConnectionResetError(
            "closed the connection during the login: does it expect TLS at this port?"
        ) from error


class BrokerLoginProtocol(asyncio.Protocol):
    """A connection during its login: one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._response: asyncio.Future[bytes] | None = None
        self._lost: Exception | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, chunk: bytes) -> None:
        self._received += chunk
        if len(self._received) < LENGTH.size:
            return
        (length,) = LENGTH.unpack_from(self._received)
        if not 0 < length <= MAX_RESPONSE_BYTES:
            self._fail(CodecError(diagnose(bytes(self._received)) or f"it sent a frame of {length} bytes"))
        elif len(self._received) >= LENGTH.size + length and self._response is not None:
            frame = bytes(self._received)
            self._received.clear()
            if not self._response.done():
                self._response.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._fail(error or EOFError())

    async def request(self, frame: bytes) -> bytes:
        """The response to a request. Raises OSError, EOFError, CodecError."""
        if self._lost is not None or self.transport is None:
            raise self._lost or EOFError()
        self._response = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return await self._response

    def hand_over(self, side: asyncio.Protocol) -> None:
        """Let another protocol have the connection. Raises LoginError if it has ended."""
        if self.transport is None or self.transport.is_closing():
            raise LoginError("the broker closes the connection after the login")
        self.transport.set_protocol(side)
        side.connection_made(self.transport)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _fail(self, error: Exception) -> None:
        self._lost = error
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)


@runtime_checkable
class LoggedIn(Protocol):
    """A protocol that renews its login before the lifetime of its session is over (KIP-368)."""

    def logged_in(self, logins: BrokerLogins, lifetime_s: float) -> None: ...


def open_broker_logins(config: Config, counts: Counter[str]) -> BrokerLogins | None:
    """Those of a configuration; None where clients log in themselves. Raises ConfigError."""
    try:
        credentials = open_credentials(config.brokers.sasl)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return BrokerLogins(credentials, counts) if credentials is not None else None


class BrokerLogins:
    """Those with one set of credentials."""

    protocol = BrokerLoginProtocol

    def __init__(self, credentials: Credentials, counts: Counter[str]) -> None:
        self.credentials = credentials
        self.counts = counts  # by result
        self.failure: str | None = None  # why the last one failed
        self._lines = LogLimiter(LOG_EVERY_S, time.monotonic)

    async def perform(self, request: Request, address: str) -> float:
        """Log in on a connection to ``address``; the lifetime of the session in seconds, 0: it has no limit.

        Raises LoginError, OSError.
        """
        try:
            lifetime_s = await perform_login(self.credentials, request)
        except LoginError as error:
            self.failed(error, address)
            raise
        self.succeeded("success")
        if log.isEnabledFor(logging.DEBUG):
            log.debug("logged in at a broker", extra={"address": address, "detail": self.credentials.mechanism})
        return lifetime_s

    def hand_over(self, login: BrokerLoginProtocol, lifetime_s: float, protocol: asyncio.Protocol) -> None:
        """Let a protocol have the connection; one that can renew the login gets the lifetime of the session."""
        if lifetime_s and isinstance(protocol, LoggedIn):
            protocol.logged_in(self, lifetime_s)
        login.hand_over(protocol)

    def succeeded(self, result: str) -> None:
        self.counts[result] += 1
        self.failure = None

    def failed(self, error: LoginError, address: str | None) -> None:
        self.counts["failure"] += 1
        self.failure = f"{error}; {self.credentials.remedy}"
        if (suppressed := self._lines.due(("login failed",))) is not None:
            log.error(
                "login failed", extra={"address": address, "detail": self.failure, "suppressed": suppressed or None}
            )


Entry = tuple[Sequence[str], BrokerLogins]  # patterns of principals, and the login for them


class BrokerLoginsByPrincipal:
    """The first entry whose pattern fits a client's principal, or the sidecar's own login."""

    def __init__(self, own: BrokerLogins | None, entries: Sequence[Entry]) -> None:
        self._own = own
        self._entries = entries

    def of(self, principal: str | None) -> BrokerLogins | None:
        """For a connection of this client; None: it logs in itself, if anybody does."""
        if principal is not None:
            for patterns, logins in self._entries:
                if matches(principal, patterns):
                    return logins
        return self._own


def open_logins_by_principal(config: Config, own: BrokerLogins | None, counts: Counter[str]) -> BrokerLoginsByPrincipal:
    """Those of a configuration. Raises ConfigError: a password cannot be read."""
    try:
        return BrokerLoginsByPrincipal(
            own, [(one.principals, BrokerLogins(Password(one.sasl), counts)) for one in config.brokers.logins]
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
