"""A login to a broker, without sockets: yields each request's frame, is sent the response's (KIP-43, KIP-152, KIP-368).

    SaslHandshake v1 --> mechanisms
    SaslAuthenticate v2 --> the next token of the mechanism, ... --> lifetime of the session

Brokers close a connection whose lifetime is over once they receive a request on it, so it is enough to log in before
the next one: from the time when a login is due, `Relogin` is a gate of the session, at which that request waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_sidecar.plugins.effects import Need, Steps
from kafka_sidecar.proxy.relay.exchange import RouteError, Send
from kafka_sidecar.proxy.security.sasl.scram import ScramError

HANDSHAKE, AUTHENTICATE = 1, 2  # versions
CLIENT_ID = "kafka-sidecar"
MAX_REASON_CHARS = 300

Tokens = Generator[bytes, bytes, None]  # a mechanism: the client's tokens, to which the broker's are sent
Conversation = Generator[bytes, bytes, float]  # frames; returns the lifetime of the session in seconds, 0: no limit


class LoginError(ConnectionError):
    """The broker does not let the sidecar in. The text says why and quotes no secret."""


def plain(username: str, password: str) -> Tokens:
    """PLAIN (RFC 4616)."""
    yield b"\0" + username.encode() + b"\0" + password.encode()


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Tokens:
    """OAUTHBEARER (RFC 7628, KIP-255, KIP-342). Raises LoginError."""
    pairs = "".join(f"\1{name}={value}" for name, value in extensions.items())
    rejection = yield f"n,,\1auth=Bearer {token}{pairs}\1\1".encode()
    if rejection:  # an error as JSON, which has to be answered before the broker says that the login has failed
        yield b"\1"
        raise LoginError(f"the broker rejects the token: {_status_of(rejection)}")


def log_in(mechanism: str, tokens: Tokens) -> Conversation:
    """One login. Raises LoginError, CodecError."""
    response = yield _request(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE, 0)
    _check_handshake(mechanism, decode_response(SaslHandshakeResponse, response, HANDSHAKE).message)
    try:
        token = next(tokens)
        for correlation_id in range(1, 10):  # no mechanism has more
            frame = yield _request(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE, correlation_id)
            answer = decode_response(SaslAuthenticateResponse, frame, AUTHENTICATE).message
            if answer.error_code != ErrorCode.NONE:
                raise LoginError(f"the broker rejects the login: {(answer.error_message or '')[:MAX_REASON_CHARS]}")
            token = tokens.send(answer.auth_bytes)
    except StopIteration:
        return answer.session_lifetime_ms / 1000
    except ScramError as error:
        raise LoginError(str(error)) from error
    raise LoginError("the broker does not end the login")


def _check_handshake(mechanism: str, answer: SaslHandshakeResponse) -> None:
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginError("the broker expects no login at this port: remove brokers.sasl, or use another port")
    if answer.error_code != ErrorCode.NONE:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginError(f"the broker does not have the mechanism {mechanism}: set brokers.sasl.mechanism to {offered}")


def _request(message: Message, version: int, correlation_id: int) -> bytes:
    return encode_request(message, version, correlation_id, CLIENT_ID)


def _status_of(rejection: bytes) -> str:
    """The error's status, such as invalid_token."""
    try:
        status = json.loads(rejection)["status"]
    except (ValueError, KeyError, TypeError):
        return "without a reason"
    return str(status)[:MAX_REASON_CHARS]


class Credentials(Protocol):
    """Those of one user or client."""

    @property
    def mechanism(self) -> str: ...

    @property
    def remedy(self) -> str:
        """What a person has to correct if brokers reject them: names settings and files, quotes no secret."""
        ...

    async def tokens(self) -> Tokens:
        """The mechanism's tokens of one login. Raises LoginError."""
        ...


@dataclass(frozen=True, slots=True)
class LoginTokens(Need):
    """The tokens of a login with these credentials. LoginError is raised in the exchange where there are none."""

    credentials: Credentials


@dataclass(frozen=True, slots=True)
class Relogin:
    """A login that is due on one connection: a `Gate`."""

    credentials: Credentials
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
