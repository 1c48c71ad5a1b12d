"""The sidecar's login on a client's connection is renewed before the session's lifetime is over (KIP-368).

    client's request --> held --> SaslHandshake, SaslAuthenticate --> broker --> request goes on

Brokers close a connection whose lifetime is over once they receive a request on it, so it is enough to log in before
the next one. Until then each row of the table of routes begins with the login; without a lifetime nothing is different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kafka_sidecar.codec.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    Look,
    Need,
    Outcome,
    OuterExchange,
    Pass,
    RouteError,
    Send,
    Steps,
)
from kafka_sidecar.proxy.relay.routes import Route, Table
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
    """A login that is due on one connection."""

    credentials: HasTokens
    succeeded: Callable[[float], None]  # with the new lifetime in seconds, 0: no limit
    failed: Callable[[LoginError], None]

    def steps(self) -> Steps[None]:
        """Log in. Raises RouteError where the broker does not let the sidecar in."""
        try:
            tokens = yield LoginTokens(self.credentials)
            conversation = log_in(self.credentials.mechanism, tokens)
            frame = next(conversation)
            while True:
                (response,) = yield Send((frame,))
                frame = conversation.send(response)
        except StopIteration as done:
            self.succeeded(done.value)
        except LoginError as error:
            self.failed(error)
            raise RouteError("authentication_failed", f"the login was not renewed: {error}") from error


class ReloginRoutes:
    """The rows of a session whose login is due: each request is held until it is renewed."""

    def __init__(self, routes: Table, relogin: Relogin) -> None:
        self._routes = routes
        self._relogin = relogin

    def get(self, key_version: int) -> Route:
        """The row of a pair, with the login before it. Raises RouteError."""
        route = self._routes.get(key_version) or self._routes.add(key_version)
        return route if route.answer is not None else replace(route, exchange=self._begin(route.exchange))

    add = get

    def _begin(self, begin: Begin | None) -> Begin:
        def begun(data: bytes, at: int, size: int, client: Client) -> Exchange:
            found = begin(data, at, size, client) if begin is not None else None
            if isinstance(found, Look):
                found = found.start()
            return ReloginExchange(self._relogin, None if isinstance(found, Pass) else found)

        return begun


class ReloginExchange(OuterExchange):
    """One request, held until the login is renewed; then it is for ``inner``, if there is one."""

    __slots__ = ("_relogin",)

    def __init__(self, relogin: Relogin, inner: Exchange | None) -> None:
        super().__init__(inner)
        self._relogin = relogin

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from self._relogin.steps()
        return (yield from self.ask_inner(frame))

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        return (yield from self.inner_response(frame))
