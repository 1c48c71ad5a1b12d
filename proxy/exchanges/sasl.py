"""SaslHandshake and SaslAuthenticate: who a client is that logs in to the broker.

    SaslAuthenticate --> broker --> its response --> the principal --> the client, and its next request

All frames pass unchanged: the broker authenticates, the sidecar reads the name that it has accepted. Nothing that the
client sends after a token is looked at before the broker has answered it, or it would be checked as another user's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.messages import UNKNOWN
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Forward, Outcome, Respond, Send

PLAIN, SCRAM = "PLAIN", ("SCRAM-SHA-256", "SCRAM-SHA-512")
MAX_TOKEN_BYTES = 512 << 10  # Kafka's sasl.server.max.receive.size; in longer ones no name is looked for

# RFC 4616: authorization id NUL name NUL password.
_PLAIN = re.compile(rb"[^\0]*\0(?P<name>[^\0]+)\0[^\0]+")
# Kafka's ScramMessages.ClientFirstMessage, which is wider than RFC 5802: a name is any ASCII.
_VALUE, _NAME = rb"[\x01-\x2b\x2d-\x7f]+", rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_SCRAM = re.compile(
    rb"n,(?:a=%b)?,(?:m=%b,)?n=(?P<name>%b),r=[\x21-\x2b\x2d-\x7e]+(?P<extensions>(?:,[A-Za-z]+=%b)*)"
    % (_NAME, _VALUE, _NAME, _VALUE)
)
_BY_TOKEN = re.compile(rb",tokenauth=(?i:true)(?=,|\Z)")


@dataclass(frozen=True, slots=True)
class Login:
    """What is known of a login that the broker has not finished."""

    mechanism: str
    name: str | None = None
    has_begun: bool = False  # the broker has answered a token


def find_name(mechanism: str, token: bytes) -> str | None:
    """The name in a client's first token; None if only the broker knows it.

    >>> find_name("PLAIN", bytes(1) + b"alice" + bytes(1) + b"secret")
    'alice'
    >>> find_name("SCRAM-SHA-256", b"n,,m=any,n=bob=2Cjr,r=abc")
    'bob,jr'
    >>> find_name("GSSAPI", b"n,,n=bob,r=abc")
    """
    if len(token) > MAX_TOKEN_BYTES:
        return None
    if mechanism == PLAIN:
        found = _PLAIN.fullmatch(token)
        try:
            return found["name"].decode() if found is not None else None
        except UnicodeDecodeError:
            return None
    found = _SCRAM.fullmatch(token) if mechanism in SCRAM else None
    # The name of a delegation token is not its owner's (KIP-48).
    if found is None or _BY_TOKEN.search(found["extensions"]):
        return None
    return found["name"].decode("ascii").replace("=2C", ",").replace("=3D", "=")


def login_exchange(key: int, version: int) -> Begin:
    """What looks into requests of one of the two APIs, in a version."""
    of_api = HandshakeExchange if key == ApiKey.SASL_HANDSHAKE else AuthenticateExchange
    return lambda data, at, size, client: of_api(client, version)


class HandshakeExchange(Exchange):
    """One SaslHandshake request and its response: the mechanism of the tokens that follow."""

    __slots__ = ("_client", "_mechanism", "_version")

    def __init__(self, client: Client, version: int) -> None:
        self._client = client
        self._version = version
        self._mechanism = ""

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()  # nothing is needed
        self._mechanism = decode_request(SaslHandshakeRequest, frame)[1].message.mechanism
        return Forward(frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        yield from ()
        error = decode_response(SaslHandshakeResponse, frame, self._version).message.error_code
        self._client.login = Login(self._mechanism) if error == ErrorCode.NONE else None
        return frame


class AuthenticateExchange(Exchange):
    """One SaslAuthenticate request, which is sent and answered before the client's direction goes on."""

    __slots__ = ("_client", "_version")

    def __init__(self, client: Client, version: int) -> None:
        self._client = client
        self._version = version

    def request(self, frame: bytes) -> Steps[Outcome]:
        token = decode_request(SaslAuthenticateRequest, frame)[1].message.auth_bytes
        (answer,) = yield Send((frame,))
        self._answered(token, decode_response(SaslAuthenticateResponse, answer, self._version).message.error_code)
        return Respond(answer)

    def _answered(self, token: bytes, error_code: int) -> None:
        """The principal is that of the login which has succeeded with this response."""
        client, login = self._client, self._client.login
        client.login = None
        if error_code != ErrorCode.NONE:
            return  # the broker ends the connection, or this was no time for a login
        if not isinstance(login, Login):
            client.principal = UNKNOWN
        elif login.mechanism in SCRAM and not login.has_begun:
            client.login = Login(login.mechanism, find_name(login.mechanism, token), has_begun=True)
        else:
            name = find_name(login.mechanism, token) if login.mechanism == PLAIN else login.name
            client.principal = f"User:{name}" if name is not None else UNKNOWN
            if name is None:
                client.login = login  # how many tokens there are is not known either
