"""When the sidecar logs in again on a client's connection: before the broker's session is over (KIP-368)."""

from __future__ import annotations

import asyncio
import random

from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins
from kafka_sidecar.proxy.security.sasl.conversation import LoginError
from kafka_sidecar.proxy.security.sasl.relogin import Relogin

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
