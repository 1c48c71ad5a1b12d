"""The sidecar's logins at brokers: performed, counted, logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Protocol, runtime_checkable

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.security.sasl.conversation import LoginError
from kafka_sidecar.proxy.security.sasl.credentials import Credentials, open_credentials
from kafka_sidecar.proxy.security.sasl.login import LoginProtocol, Request, perform_login
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

log = logging.getLogger(__name__)

LOG_EVERY_S = 10.0


@runtime_checkable
class LoggedIn(Protocol):
    """A protocol that renews its login before the lifetime of its session is over (KIP-368)."""

    def logged_in(self, logins: Logins, lifetime_s: float) -> None: ...


def open_logins(config: Config, counts: Counter[str]) -> Logins | None:
    """Those of a configuration; None where clients log in themselves. Raises ConfigError."""
    try:
        credentials = open_credentials(config.brokers.sasl)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return Logins(credentials, counts) if credentials is not None else None


class Logins:
    """Those with one set of credentials."""

    protocol = LoginProtocol

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
        return lifetime_s

    def hand_over(self, login: LoginProtocol, lifetime_s: float, protocol: asyncio.Protocol) -> None:
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
