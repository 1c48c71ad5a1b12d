"""Tokens of clients (RFC 7519): who they are for, as Kafka's OAuthBearerValidatorCallbackHandler decides.

The keys with which they are signed (RFC 7517) are from a file, or from an endpoint that is asked again at times.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jwt

from kafka_sidecar.outbound.jwks import Key, KeyEndpoint, KeysError, read_keys
from kafka_sidecar.proxy.config.reload import state_of
from kafka_sidecar.proxy.security.sasl.verification import Accepted, RejectedError, bearer_token

log = logging.getLogger(__name__)

MAX_NAME_CHARS = 1000
UNKNOWN_KEY_S = 60.0  # between two requests because of keys that are not known, as Kafka's brokers pause
# What the library raises, and what JSON does to it: deep nesting, endless numbers.
UNREADABLE = (jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError)


class Keys(Protocol):
    """With which tokens are signed."""

    @property
    def are_current(self) -> bool: ...

    def current(self) -> Sequence[Key]:
        """In any thread."""
        ...

    def ask_if_old(self) -> None:
        """Called in the event loop, before each token."""
        ...

    def is_due(self, key_id: str | None) -> bool: ...

    def refresh(self) -> Awaitable[None]: ...


class FileKeys:
    """Those of a file, read when it changes; where it cannot be used, the previous ones stay."""

    def __init__(self, path: Path) -> None:
        """Raises KeysError."""
        self._path = path
        self._seen = state_of(path)
        self._keys = read_keys(path)
        self._is_current = True

    @property
    def are_current(self) -> bool:
        """Whether the keys that are in the file now apply."""
        self.current()
        return self._is_current

    def current(self) -> tuple[Key, ...]:
        if (seen := state_of(self._path)) != self._seen and seen is not None:
            self._seen = seen
            self._is_current = False
            try:
                self._keys = read_keys(self._path)
                self._is_current = True
                log.info("token keys applied", extra={"detail": str(self._path)})
            except KeysError as error:
                log.error("token keys rejected, the previous ones stay applied", extra={"detail": str(error)})
        return self._keys

    def ask_if_old(self) -> None:
        """`current` looks at the file."""

    def is_due(self, key_id: str | None) -> bool:
        """Whether `refresh` may find keys that `current` does not have."""
        return False

    async def refresh(self) -> None:
        return


class EndpointKeys(KeyEndpoint):
    """Those of an endpoint. No client waits for one that only is old."""

    def __init__(
        self, url: str, refresh_s: float, fetch: Callable[[str], bytes] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(url, refresh_s, fetch, now, pause_s=UNKNOWN_KEY_S)
        self._refreshing: asyncio.Task[None] | None = None  # in the background

    def current(self) -> tuple[Key, ...]:
        return self.known

    def ask_if_old(self) -> None:
        """Ask for them in the background."""
        if self.is_old and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.get_running_loop().create_task(self.refresh(), name="ask for the keys of tokens")

    def report(self, failure: str) -> None:
        log.error("token keys not refreshed, the previous ones stay applied", extra={"detail": failure})


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token has to be, beside signed and not expired."""

    audience: tuple[str, ...] = ()  # one of these; none: any
    issuer: str | None = None  # None: any
    name_claim: str = "sub"
    skew_s: float = 30.0


class TokenVerifier:
    """Verifies tokens with the keys of one source."""

    def __init__(self, keys: Keys, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._options: Any = {
            "require": ["exp"], "verify_aud": bool(rules.audience), "verify_iss": rules.issuer is not None,
        }  # fmt: skip

    def needs_keys(self, response: bytes) -> bool:
        """Whether keys have to be asked for before the token of a client's response can be verified.

        Called in the event loop, which `verify` need not be: here old keys are asked for, and no client waits for them.
        """
        self._keys.ask_if_old()
        try:
            key_id = jwt.get_unverified_header(bearer_token(response)).get("kid")
        except (*UNREADABLE, RejectedError):
            return False
        return self._keys.is_due(key_id)

    def keys_apply(self) -> bool:
        """Whether the keys that its source has now are used."""
        return self._keys.are_current

    async def refresh(self) -> None:
        await self._keys.refresh()

    def verify(self, token: str) -> Accepted:
        """Whose it is, and until when. Raises RejectedError, whose text does not quote the token."""
        try:
            header = jwt.get_unverified_header(token)
            claims = self._claims(token, header)
            return self._accepted(claims)
        except UNREADABLE as error:
            raise RejectedError(f"{type(error).__name__.removesuffix('Error')}: {_without_quotes(error)}") from None

    def _accepted(self, claims: dict[str, Any]) -> Accepted:
        name = claims.get(self._rules.name_claim)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            raise RejectedError(f"the claim {self._rules.name_claim} is missing")
        return Accepted(name, expires_at=float(claims["exp"]))

    def _claims(self, token: str, header: dict[str, Any]) -> dict[str, Any]:
        """Raises RejectedError, and UNREADABLE."""
        algorithm, key_id = header.get("alg"), header.get("kid")
        fitting = [
            key for key in self._keys.current() if algorithm in key.algorithms and key_id in (None, key.key_id)
        ]  # fmt: skip
        if not fitting:
            raise RejectedError("no key fits the token's kid and alg")
        rules = self._rules
        for number, key in enumerate(fitting, 1):
            try:
                claims: dict[str, Any] = jwt.decode(
                    token, key.public, algorithms=list(key.algorithms), leeway=rules.skew_s, issuer=rules.issuer,
                    audience=rules.audience or None, options=self._options,
                )  # fmt: skip
            except jwt.InvalidSignatureError:
                if number == len(fitting):
                    raise
            else:
                return claims
        raise AssertionError


def _without_quotes(error: Exception) -> str:
    """What is wrong, without what the client has sent."""
    return str(error).partition(":")[0][:100]
