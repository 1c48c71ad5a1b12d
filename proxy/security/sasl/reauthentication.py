"""A client whose login ends logs in again on the same connection (KIP-368): its SASL requests are answered here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Need, Steps
from kafka_sidecar.proxy.relay.exchange import Outcome, Respond
from kafka_sidecar.proxy.security.sasl.client_login import ClientLogin

SASL_APIS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass(frozen=True, slots=True)
class FreshKeys(Need):
    """The keys of tokens, asked for again."""

    login: ClientLogin


@dataclass(frozen=True, slots=True)
class Reauthentication:
    """A `Gate` of the session of a client whose login ends. ``answered`` is called after each response."""

    login: ClientLogin
    answered: Callable[[], None]

    def holds(self, key: int, is_local: bool) -> bool:
        return key in SASL_APIS

    def enter(self, frame: bytes) -> Steps[Outcome]:
        login = self.login
        if int.from_bytes(frame[4:6], "big") == ApiKey.SASL_AUTHENTICATE:
            login.token = login.read_token(frame)
            if login.needs_keys:
                yield FreshKeys(login)
        out = login.answer_again(frame)
        self.answered()
        return Respond(out)
