"""SaslAuthenticate: who a client is, where its mechanism gives the broker a name (PLAIN and SCRAM).

Both frames pass unchanged: the broker authenticates, the sidecar reads the name that it has accepted.
"""

from __future__ import annotations

import re

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Forward, Outcome, Steps

# RFC 4616: authorization id NUL name NUL password. RFC 5802: gs2 header, then n=name with , and = escaped.
_PLAIN = re.compile(rb"[^\0]*\0(?P<name>[^\0]+)\0[^\0]+")
# The name of a delegation token is not its owner's (KIP-48).
_SCRAM = re.compile(rb"[ny](?:=[^,]*)?,[^,]*,n=(?P<name>[^,]+),(?!.*tokenauth=true).*", re.DOTALL)


def exchange(version: int) -> Begin:
    """What looks into SaslAuthenticate requests of this version."""
    return lambda data, at, size, client: SaslExchange(version, client)


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


class SaslExchange(Exchange):
    """One SaslAuthenticate request and its response."""

    __slots__ = ("_client", "_name", "_version")

    def __init__(self, version: int, client: Client) -> None:
        self._version = version
        self._client = client
        self._name: str | None = None

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()  # nothing is needed
        _, body = decode_request(SaslAuthenticateRequest, frame)
        self._name = find_name(body.message.auth_bytes)
        return Forward(frame, wants_response=self._name is not None)

    def response(self, frame: bytes) -> Steps[bytes]:
        yield from ()
        body = decode_response(SaslAuthenticateResponse, frame, self._version)
        if body.message.error_code == ErrorCode.NONE:
            # With SCRAM this is the first of two responses: if the second is an error, the connection ends.
            self._client.principal = f"User:{self._name}"
        return frame
