"""SaslAuthenticate: who a client is, where its mechanism gives the broker a name (PLAIN and SCRAM).

Both frames pass unchanged: the broker authenticates, the sidecar reads the name that it has accepted.
"""

from __future__ import annotations

import re

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage
from kafka_sidecar.proxy.relay.exchange import Client

# RFC 4616: authorization id NUL name NUL password. RFC 5802: gs2 header, then n=name with , and = escaped.
_PLAIN = re.compile(rb"[^\0]*\0(?P<name>[^\0]+)\0[^\0]+")
# The name of a delegation token is not its owner's (KIP-48).
_SCRAM = re.compile(rb"[ny](?:=[^,]*)?,[^,]*,n=(?P<name>[^,]+),(?!.*tokenauth=true).*", re.DOTALL)


def find_name(token: bytes) -> str | None:
    """The name in a client's first token, None if it is of another mechanism or a later one.

    >>> find_name(bytes(1) + b"alice" + bytes(1) + b"secret"), find_name(b"n,,n=bob=2Cjr,r=abc")
    ('alice', 'bob,jr')
    >>> find_name(b"c=biws,r=abc")
    """
    plain, scram = _PLAIN.fullmatch(token), _SCRAM.fullmatch(token)
    try:
        if plain is not None:
            return plain["name"].decode()
        return scram["name"].decode().replace("=2C", ",").replace("=3D", "=") if scram is not None else None
    except UnicodeDecodeError:
        return None


class Principals:
    """The stage of SaslAuthenticate that gives each client its principal."""

    def start(self, client: Client, version: int) -> PrincipalRun:
        return PrincipalRun(client)


class PrincipalRun(MessageRun):
    """One SaslAuthenticate request and its response."""

    __slots__ = ("_client", "_name")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._name: str | None = None

    @property
    def wants_response(self) -> bool:
        return self._name is not None

    def request(self, request: OpenMessage) -> Steps[None]:
        self._name = find_name((yield from request.read(SaslAuthenticateRequest)).auth_bytes)

    def response(self, response: OpenMessage) -> Steps[None]:
        if (yield from response.read(SaslAuthenticateResponse)).error_code == ErrorCode.NONE:
            # With SCRAM this is the first of two responses: if the second is an error, the connection ends.
            self._client.principal = f"User:{self._name}"
