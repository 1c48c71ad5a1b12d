"""The login of one client to the sidecar, bytes in and out: before it, only ApiVersions and SASL, in small frames.

    ApiVersions --> those of the sidecar and its brokers        any number of times
    SaslHandshake --> mechanisms
    SaslAuthenticate --> the next token, ... --> accepted: what follows is for the session

No broker is connected meanwhile, nothing is forwarded, and no more than one frame is kept.
A token waits until `take_turn` is called with what `verify` has found, in a thread: a password takes milliseconds.
A client whose token expires gets the lifetime of its login, and logs in again on the same connection (KIP-368):
`answer_again`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_request, encode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.plugins.effects import Need, Steps
from kafka_sidecar.proxy.relay.exchange import Client, Closing, Outcome, Respond, RouteError
from kafka_sidecar.proxy.relay.introduction import diagnose, introduce
from kafka_sidecar.proxy.security.sasl.verification import Accepted, RejectedError, Verification

OAUTHBEARER, PLAIN = "OAUTHBEARER", "PLAIN"
MAX_FRAME_BYTES = 16 << 10
MIN_FRAME_BYTES = 8
MAX_FRAMES = 20  # a login has four
MAX_LIFETIME_S = 365 * 24 * 3600.0  # whatever a token says

Verdict = bytes | Accepted | RejectedError  # of a client's token
# The response to an ApiVersions request: (version, correlation id) -> frame. Raises RouteError: there is none yet.
ApiVersionsOf = Callable[[int, int], bytes]


class TokenKeys(Protocol):
    """What verifies tokens, with keys that may have to be asked for."""

    def needs_keys(self, response: bytes) -> bool:
        """Whether a client's response has a token for which the keys have to be asked for again."""
        ...

    async def refresh(self) -> None: ...


class ClientLogin:
    """One client's login."""

    def __init__(
        self,
        client: Client,
        mechanisms: Mapping[str, Callable[[], Verification]],
        api_versions: ApiVersionsOf,
        tokens: TokenKeys | None = None,
        now: Callable[[], float] = time.time,
        knows: Callable[[bytes], bool] = lambda token: False,
    ) -> None:
        """``knows``: whether a token of PLAIN has a password with which its user has logged in before."""
        self._client = client
        self._knows = knows
        self._tokens = tokens
        self._now = now  # seconds since 1970
        self._mechanisms = mechanisms
        self._api_versions = api_versions
        self._carry = b""
        self._frames = 0
        self._verification: Verification | None = None
        self._due: Callable[[Verdict], bytes] | None = None  # takes what becomes of `token`
        self.token = b""  # the client's last one
        self.mechanism: str | None = None
        self.is_open = False  # the client is authenticated; its `principal` is set
        self.lifetime_s: float | None = None  # of its last login; None: it does not end
        self.rest = b""  # then: what it has sent after its login
        self.has_ended_login = False  # the last SASL request was the last of a login
        self.is_rejected = False  # it does not get in, and has its answer
        self.closing: Closing | None = None

    @property
    def awaits_turn(self) -> bool:
        """Whether `take_turn` has something to do."""
        return self._due is not None

    def feed(self, chunk: bytes) -> bytes:
        """What goes to the client. Look at `closing`, `awaits_turn` and `is_open` then."""
        self._carry += chunk
        return self._advance()

    @property
    def is_quick(self) -> bool:
        """Whether `verify` takes microseconds: a password that has to be computed with takes milliseconds."""
        return self.mechanism != PLAIN or self._knows(self.token)

    def verify(self) -> Verdict:
        """What becomes of the token that waits: a token for the client, or the end of its login. In any thread."""
        assert self._verification is not None
        try:
            return self._verification.send(self.token)
        except StopIteration as done:
            accepted: Accepted = done.value
            return accepted
        except RejectedError as error:
            return error

    def take_turn(self, outcome: Verdict) -> bytes:
        """Go on with what `verify` has found; returns as `feed`."""
        due, self._due = self._due, None
        return self._advance(partial(due, outcome) if due is not None else None)

    @staticmethod
    def read_token(frame: bytes) -> bytes:
        """That of a SaslAuthenticate request. Raises CodecError."""
        return decode_request(SaslAuthenticateRequest, frame)[1].message.auth_bytes

    @property
    def needs_keys(self) -> bool:
        """Whether `refresh_keys` has to be awaited before `take_turn`."""
        return self.mechanism == OAUTHBEARER and self._tokens is not None and self._tokens.needs_keys(self.token)

    async def refresh_keys(self) -> None:
        """Ask for the keys of tokens again."""
        if self._tokens is not None:
            await self._tokens.refresh()

    def answer_again(self, frame: bytes) -> bytes:
        """The response to a SASL request of a client that is authenticated. Look at `is_rejected` then.

        Raises RouteError, CodecError.
        """
        if int.from_bytes(frame[4:6], "big") == ApiKey.SASL_HANDSHAKE:
            self._verification = None
        self.has_ended_login = False
        out = self._answer(frame)
        if self._due is not None:
            due, self._due = self._due, None
            out = due(self.verify())
        return out

    def _advance(self, due: Callable[[], bytes] | None = None) -> bytes:
        out = b""
        try:
            if due is not None:
                out = due()
            while not self._stops and (frame := self._next_frame()) is not None:
                out += self._answer(frame)
            if self.awaits_turn and len(self._carry) > MAX_FRAME_BYTES:
                detail = f"more than {MAX_FRAME_BYTES} bytes came after a SaslAuthenticate request, before its response"
                raise RouteError("not_authenticated", detail)
        except RouteError as error:
            self.closing = Closing(error.cause, str(error))
        except CodecError as error:
            self.closing = Closing("unreadable_request", str(error))
        if self.is_open:
            self.rest, self._carry = self._carry, b""
        return out

    @property
    def _stops(self) -> bool:
        return self.closing is not None or self.is_open or self.awaits_turn

    def _next_frame(self) -> bytes | None:
        if len(self._carry) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._carry)
        if not MIN_FRAME_BYTES <= length <= MAX_FRAME_BYTES:
            if not self._frames and (sentence := diagnose(self._carry)) is not None:
                raise RouteError("not_kafka", sentence)
            raise RouteError("not_authenticated", f"a request of {length} bytes came before the login")
        end = LENGTH.size + length
        if len(self._carry) < end:
            return None
        frame, self._carry = self._carry[:end], self._carry[end:]
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise RouteError("not_authenticated", f"more than {MAX_FRAMES} requests came before the login")
        return frame

    def _answer(self, frame: bytes) -> bytes:
        key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
        correlation_id = int.from_bytes(frame[8:12], "big", signed=True)
        if key == ApiKey.API_VERSIONS and self._verification is None:
            introduce(self._client, frame)
            return self._api_versions(version, correlation_id)
        if key == ApiKey.SASL_HANDSHAKE and self._verification is None:
            return self._shake_hands(frame, version, correlation_id)
        if key == ApiKey.SASL_AUTHENTICATE and self._verification is not None:
            self.token = self.read_token(frame)
            self._due = partial(self._authenticate, version, correlation_id)
            return b""
        name = APIS[ApiKey(key)].name if key in APIS else f"api key {key}"
        raise RouteError(
            "not_authenticated",
            f"{name} came before the login: set security.protocol and sasl.* of the client, as clients.sasl says",
        )

    def _shake_hands(self, frame: bytes, version: int, correlation_id: int) -> bytes:
        if version < 1:
            raise RouteError("unsupported_version", "SaslHandshake version 0 is not supported, only 1")
        introduce(self._client, frame)
        wanted = decode_request(SaslHandshakeRequest, frame)[1].message.mechanism
        begin = self._mechanisms.get(wanted) if not self.is_open or wanted == self.mechanism else None
        self.mechanism = wanted
        error = ErrorCode.NONE
        if begin is None:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self.is_rejected = True
            offered = ", ".join(self._mechanisms)
            self.closing = Closing("client_authentication_failed", f"the client wants another mechanism than {offered}")
        else:
            self._verification = begin()
            next(self._verification)
        response = SaslHandshakeResponse(error_code=error, mechanisms=tuple(self._mechanisms))
        return encode_response(response, version, correlation_id)

    def _authenticate(self, version: int, correlation_id: int, outcome: Verdict) -> bytes:
        try:
            response = self._take(outcome)
        except RejectedError as error:
            self.is_rejected = True
            self.closing = Closing("client_authentication_failed", f"{self.mechanism}: {error}")
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
            )
        return encode_response(response, version, correlation_id)

    def _take(self, outcome: Verdict) -> SaslAuthenticateResponse:
        """Raises RejectedError."""
        if isinstance(outcome, RejectedError):
            raise outcome
        return self._accept(outcome) if isinstance(outcome, Accepted) else SaslAuthenticateResponse(auth_bytes=outcome)

    def _accept(self, accepted: Accepted) -> SaslAuthenticateResponse:
        """Raises RejectedError: who logs in again stays who it is, as at a broker."""
        principal = f"User:{accepted.name}"
        if self.is_open and principal != self._client.principal:
            raise RejectedError("Authentication failed: the client was another user before")
        self._client.principal = principal
        self.is_open = self.has_ended_login = True
        lifetime_ms = 0
        if accepted.expires_at is not None:
            self.lifetime_s = min(max(accepted.expires_at - self._now(), 0.001), MAX_LIFETIME_S)
            lifetime_ms = math.ceil(self.lifetime_s * 1000)
        return SaslAuthenticateResponse(auth_bytes=accepted.token, session_lifetime_ms=lifetime_ms)


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
