"""Who a client is, where it tells a name to authenticate (SASL PLAIN and SCRAM): the broker judges, we listen."""

from __future__ import annotations

import re

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.headers import ResponseHeader, decode_request_header
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange

LENGTH = 4
# RFC 4616: authorization id NUL name NUL password. RFC 5802: gs2 header, then n=name with , and = written otherwise.
_PLAIN = re.compile(rb"[^\0]*\0(?P<name>[^\0]+)\0[^\0]+")
# A delegation token's name is not its owner's (KIP-48).
_SCRAM = re.compile(rb"[ny](?:=[^,]*)?,[^,]*,n=(?P<name>[^,]+),(?!.*tokenauth=true).*", re.DOTALL)


def exchange(key: int, version: int) -> Begin | None:
    """Who listens to requests of this kind."""
    if key != ApiKey.SASL_AUTHENTICATE:
        return None
    return lambda data, at, size, client: Authentication(version, client)


def name_in(token: bytes) -> str | None:
    """The name that a client's first token tells, None where it is of another mechanism or a later one.

    >>> name_in(bytes(1) + b"alice" + bytes(1) + b"secret"), name_in(b"n,,n=bob=2Cjr,r=abc"), name_in(b"c=biws,r=abc")
    ('alice', 'bob,jr', None)
    """
    plain, scram = _PLAIN.fullmatch(token), _SCRAM.fullmatch(token)
    try:
        if plain is not None:
            return plain["name"].decode()
        return scram["name"].decode().replace("=2C", ",").replace("=3D", "=") if scram is not None else None
    except UnicodeDecodeError:
        return None


class Authentication(Exchange):
    """One SaslAuthenticate request and its response; both pass as they are."""

    __slots__ = ("_client", "_name", "_version")

    def __init__(self, version: int, client: Client) -> None:
        self._version = version
        self._client = client
        self._name: str | None = None

    @property
    def wants_response(self) -> bool:
        return self._name is not None

    def request(self, frame: bytes) -> bytes:
        """Raises CodecError."""
        _, at = decode_request_header(frame, LENGTH)
        request, _ = decode(SaslAuthenticateRequest, frame, self._version, at)
        self._name = name_in(request.auth_bytes)
        return frame

    def response(self, frame: bytes) -> bytes:
        """Raises CodecError."""
        header_version = response_header_version(ApiKey.SASL_AUTHENTICATE, self._version)
        _, at = decode(ResponseHeader, frame, header_version, LENGTH)
        response, _ = decode(SaslAuthenticateResponse, frame, self._version, at)
        if response.error_code == ErrorCode.NONE:  # with SCRAM the first of two: if the second fails, all ends
            self._client.principal = f"User:{self._name}"
        return frame
