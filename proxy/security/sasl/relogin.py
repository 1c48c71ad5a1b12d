"""The sidecar's login on a client's connection is renewed before the session's lifetime is over (KIP-368).

    client's request --> held --> SaslHandshake, SaslAuthenticate --> broker --> request goes on

Brokers close a connection whose lifetime is over once they receive a request on it, so it is enough to log in before
the next one: from the time when a login is due it is a gate of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafka_sidecar.plugins.effects import Need, Steps
from kafka_sidecar.proxy.relay.exchange import RouteError, Send
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Tokens, log_in


class HasTokens(Protocol):
    """Credentials."""

    @property
    def mechanism(self) -> str: ...

    async def tokens(self) -> Tokens: ...


@dataclass(frozen=True, slots=True)
class LoginTokens(Need):
    """The tokens of a login with these credentials. LoginError is raised in the exchange where there are none."""

    credentials: HasTokens


@dataclass(frozen=True, slots=True)
class Relogin:
    """A login that is due on one connection: a `Gate`."""

    credentials: HasTokens
    succeeded: Callable[[float], None]  # with the new lifetime in seconds, 0: no limit
    failed: Callable[[LoginError], None]

    def holds(self, key: int, is_local: bool) -> bool:
        """As `Gate`: all requests that are for the broker."""
        return not is_local

    def enter(self, frame: bytes) -> Steps[None]:
        """As `Gate`: log in. Raises RouteError where the broker does not let the sidecar in."""
        try:
            tokens = yield LoginTokens(self.credentials)
            conversation = log_in(self.credentials.mechanism, tokens)
            request = next(conversation)
            while True:
                (response,) = yield Send((request,))
                request = conversation.send(response)
        except StopIteration as done:
            self.succeeded(done.value)
        except LoginError as error:
            self.failed(error)
            raise RouteError("authentication_failed", f"the login was not renewed: {error}") from error
