"""A client whose login ends logs in again on the same connection (KIP-368): its SASL requests are answered here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Need, Outcome, Respond, Steps
from kafka_sidecar.proxy.relay.routes import Route, Table
from kafka_sidecar.proxy.security.sasl.client_login import ClientLogin as Gate

SASL_APIS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass(frozen=True, slots=True)
class FreshKeys(Need):
    """The keys of tokens, asked for again."""

    gate: Gate


class ReauthenticationRoutes:
    """The rows of one session. ``answered`` is called after each response."""

    def __init__(self, routes: Table, gate: Gate, answered: Callable[[], None]) -> None:
        self._routes = routes
        self._gate = gate
        self._answered = answered
        self._own: dict[int, Route] = {}

    def get(self, key_version: int) -> Route | None:
        """The row of a pair, where it was made before."""
        return self._own.get(key_version) or self._routes.get(key_version)

    def add(self, key_version: int) -> Route:
        """The row of a pair that has been asked for the first time. Raises RouteError where it is not relayed."""
        route = self._routes.add(key_version)
        if key_version >> 16 in SASL_APIS:
            route = self._own[key_version] = replace(route, answer=None, exchange=self._begin)
        return route

    def _begin(self, data: bytes, at: int, size: int, client: Client) -> Exchange:
        return ReauthenticationExchange(self._gate, self._answered)


class ReauthenticationExchange(Exchange):
    """One SaslHandshake or SaslAuthenticate."""

    __slots__ = ("_answered", "_gate")

    def __init__(self, gate: Gate, answered: Callable[[], None]) -> None:
        self._gate = gate
        self._answered = answered

    def request(self, frame: bytes) -> Steps[Outcome]:
        if int.from_bytes(frame[4:6], "big") == ApiKey.SASL_AUTHENTICATE:
            self._gate.token = self._gate.read_token(frame)
            if self._gate.needs_keys:
                yield FreshKeys(self._gate)
        out = self._gate.answer_again(frame)
        self._answered()
        return Respond(out)

    def response(self, frame: bytes) -> Steps[bytes]:
        raise NotImplementedError  # nothing is forwarded
